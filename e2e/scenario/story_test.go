package scenario

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// tomorrow is a start that owes a reminder much later.
func inDays(n int) time.Time {
	return time.Now().Add(time.Duration(n) * 24 * time.Hour).Truncate(time.Hour)
}

// Booked, moved and cancelled: three mails to the customer and three to the host, in that
// order, the last one true.
func TestBookMoveCancel(t *testing.T) {
	t.Parallel()
	in := run(t)
	a := in.book("room", "ada@customer.example", inDays(3))
	in.await("ada@customer.example", 1, 10*time.Second)
	a = in.change(a, http.MethodPost, "/reschedule", map[string]any{"start": inDays(4).UTC().Format(time.RFC3339)})
	in.await("ada@customer.example", 2, 10*time.Second)
	in.change(a, http.MethodPost, "/cancel", map[string]any{})
	mine := in.await("ada@customer.example", 3, 10*time.Second)
	hosts := in.await("host@slotwise.example", 3, 10*time.Second)

	for i, kind := range []string{"email-confirm-" + a.ID + "-v1", "email-move-" + a.ID + "-v2", "email-cancel-" + a.ID + "-v3"} {
		if got := mine[i].Header.Get("Message-Id"); !strings.HasPrefix(got, "<"+kind+"@") {
			t.Errorf("customer's mail %d is %s, want %s", i, got, kind)
		}
		if got := hosts[i].Header.Get("Message-Id"); !strings.HasPrefix(got, "<"+kind+"-host@") {
			t.Errorf("host's mail %d is %s, want %s-host", i, got, kind)
		}
	}
	if n := in.count(`select count(*) from notifier.send_log where state <> 'sent' and kind <> 'reminder'`); n != 0 {
		t.Errorf("%d messages are not sent", n)
	}
}
