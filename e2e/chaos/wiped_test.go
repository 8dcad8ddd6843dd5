package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slotwise/slotwise/e2e/install"
	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/testkit/mailtest"
)

// The whole store of NATS is lost while a third of the mails is in hand, a third waits for a
// retry after a 4xx, and a third is planned behind them: each arrives once. What is booked
// after that finds streams, consumers and schedules again.
func TestStreamsWiped(t *testing.T) {
	t.Parallel()
	const third = 4
	h := open(t, stack.Services, func(c *stack.Config) {
		c.Env["SLOTWISE_TIMES"] = "lease=4s,renew=1s,dot=20s,answer=60s,cap=90s,quiet=100s,sweep=200ms,audit=1s,young=15s,step=6s"
		c.Env["SMTP_CONNECTIONS"] = fmt.Sprint(third)
	})
	release := make(chan struct{})
	tried := map[string]bool{}
	h.mail.Script(
		mailtest.Fault{Phase: mailtest.RCPT, To: "@later.example", Reply: "451 4.7.1 try later", Match: func(c mailtest.Command) bool {
			first := !tried[c.Arg]
			tried[c.Arg] = true
			return first
		}},
		mailtest.Fault{Phase: mailtest.Dot, To: "@slow.example", Until: release},
	)
	book := func(domain string) {
		for n := range third {
			h.Book("hall", fmt.Sprintf("guest%d@%s", n, domain), install.InDays(3))
		}
	}
	in := func(state, where string) {
		h.T.Helper()
		h.Eventually(20*time.Second, fmt.Sprintf("a third is %s %s", state, where), func(ctx context.Context) error {
			n, err := h.number(ctx, `select count(*) from notifier.send_log where state = '`+state+`' and `+where)
			if err == nil && n != third {
				err = fmt.Errorf("%d are", n)
			}
			return err
		})
	}
	book("later.example")
	in("planned", "attempts = 1")
	book("slow.example")
	in("handed", "attempts = 0")
	book("soon.example")
	in("planned", "attempts = 0")

	if err := h.Part("nats").Kill(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(h.Dir, "nats")); err != nil {
		t.Fatal(err)
	}
	if err := h.Part("nats").Start(); err != nil {
		t.Fatal(err)
	}
	close(release)
	book("after.example")

	h.Eventually(60*time.Second, "all mails are sent", func(ctx context.Context) error {
		n, err := h.number(ctx, `select count(*) from notifier.send_log where state = 'sent'`)
		if err == nil && n != 4*third {
			err = fmt.Errorf("%d are", n)
		}
		return err
	})
	h.settle(20 * time.Second)
	if count := h.copiesAreMarked(); count != (tally{}) {
		t.Errorf("%+v, want none", count)
	}
	h.everyStartHasItsSchedule()
}
