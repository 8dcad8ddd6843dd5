package chaos

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/e2e/install"
	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/testkit/mailtest"
)

// A server takes three leases, as 3 minutes are in production, from the final dot to its
// answer. The hand is renewed all the while: another notifier does not take it over, the mail
// is sent once, and nobody has to wonder.
func TestServerIsSlowAfterTheDot(t *testing.T) {
	t.Parallel()
	h := open(t, stack.Services, func(c *stack.Config) {
		c.Env["SLOTWISE_TIMES"] = "lease=3s,renew=1s,dot=6s,answer=30s,cap=36s,quiet=45s,sweep=200ms" // a twentieth of production's
	})
	h.start("notifier")
	const slow = 9 * time.Second
	h.mail.Script(mailtest.Fault{Phase: mailtest.Dot, Late: slow})
	began := time.Now()
	h.Book("hosted", "ada@customer.example", install.InDays(3))
	h.mail.Wait(2, 30*time.Second)
	h.settle(30 * time.Second)
	if took := time.Since(began); took < slow {
		t.Errorf("all was sent after %s: the server was not slow", took)
	}
	if count := h.copiesAreMarked(); count != (tally{}) {
		t.Errorf("%+v, want no copies and no marks", count)
	}
	if hands := len(h.hands()); hands != 2 {
		t.Errorf("%d hands for two mails", hands)
	}
}
