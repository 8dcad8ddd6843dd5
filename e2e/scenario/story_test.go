package scenario

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/e2e/install"
	"github.com/slotwise/slotwise/e2e/stack"
)

// Booked, moved and cancelled: three mails to the customer and three to the host, in that
// order, the last one true.
func TestBookMoveCancel(t *testing.T) {
	t.Parallel()
	const ada, host = "ada@customer.example", "host@slotwise.example"
	in := install.Start(t)
	b := in.Book("room", ada, install.InDays(3))
	await(in, ada, 1, 20*time.Second)
	b = in.Move(b, install.InDays(4))
	await(in, ada, 2, 20*time.Second)
	in.Cancel(b)
	mine, hosts := await(in, ada, 3, 20*time.Second), await(in, host, 3, 20*time.Second)

	for i, key := range []string{"email-confirm-" + b.ID + "-v1", "email-move-" + b.ID + "-v2", "email-cancel-" + b.ID + "-v3"} {
		if got := mine[i].Header.Get("Message-Id"); !strings.HasPrefix(got, "<"+key+"@") {
			t.Errorf("customer's mail %d is %s, want %s", i, got, key)
		}
		if got := hosts[i].Header.Get("Message-Id"); !strings.HasPrefix(got, "<"+key+"-host@") {
			t.Errorf("host's mail %d is %s, want %s-host", i, got, key)
		}
	}
	if n := in.Count(`select count(*) from notifier.send_log where state <> 'sent'`); n != 0 {
		t.Errorf("%d messages are not sent", n)
	}
}

// Two reminders a minute away; one booking moves meanwhile. The one that stayed is reminded
// once and on time, the other not at all.
func TestB100B101ReminderOnTimeAndOnce(t *testing.T) {
	t.Parallel()
	in := install.Start(t, func(c *stack.Config) { c.Env["REMINDER_LEAD"] = "1h" })
	start := time.Now().Add(time.Hour + 63*time.Second).Truncate(time.Second)
	in.Book("hall", "stays@customer.example", start)
	moves := in.Book("hall", "moves@customer.example", start)
	in.Move(moves, start.Add(48*time.Hour))

	mine := await(in, "stays@customer.example", 2, 90*time.Second)
	if key := mine[1].Header.Get("Message-Id"); !strings.HasPrefix(key, "<reminder-") {
		t.Errorf("second mail is %s, want the reminder", key)
	}
	if early := time.Until(start.Add(-time.Hour)); early > 0 {
		t.Errorf("the reminder came %v early", early)
	}
	in.Eventually(10*time.Second, "the schedule that was left behind fires for nothing", func(context.Context) error {
		if in.Log.Lines("notifier", "reminder not owed", moves.ID) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	if n := in.Count(`select count(*) from notifier.send_log where kind = 'reminder'`); n != 1 {
		t.Errorf("%d reminders planned, want 1", n)
	}
}
