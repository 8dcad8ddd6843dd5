package scenario

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/e2e/stack"
)

// Two reminders a minute away; one booking moves meanwhile. The one that stayed is reminded
// once and on time, the other not at all.
func TestB100B101ReminderOnTimeAndOnce(t *testing.T) {
	t.Parallel()
	in := run(t, func(c *stack.Config) { c.Env["REMINDER_LEAD"] = "1h" })
	start := time.Now().Add(time.Hour + 65*time.Second).Truncate(time.Second)
	in.book("hall", "stays@customer.example", start)
	moves := in.book("hall", "moves@customer.example", start)
	in.change(moves, http.MethodPost, "/reschedule", map[string]any{"start": start.Add(48 * time.Hour).UTC().Format(time.RFC3339)})

	mine := in.await("stays@customer.example", 2, 90*time.Second)
	if id := mine[1].Header.Get("Message-Id"); !strings.HasPrefix(id, "<reminder-") {
		t.Errorf("second mail is %s, want the reminder", id)
	}
	if early := start.Add(-time.Hour).Sub(time.Now()); early > 0 {
		t.Errorf("the reminder came %v early", early)
	}
	eventually(t, 10*time.Second, "the schedule that was left behind has fired for nothing", func() (bool, error) {
		return in.log.contains("notifier", "reminder", moves.ID) > 0, nil
	})
	if n := in.count(`select count(*) from notifier.send_log where kind = 'reminder'`); n != 1 {
		t.Errorf("%d reminders planned, want 1", n)
	}
}
