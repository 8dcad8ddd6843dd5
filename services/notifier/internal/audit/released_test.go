package audit_test

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/services/notifier/internal/plan"
	"github.com/slotwise/slotwise/testkit/seed"
)

// unread plans body, which nobody can read, and returns its row's key.
func (w *world) unread(messageID, body string) string {
	w.t.Helper()
	owed, _ := plan.Encoded{MessageID: messageID, At: time.Now(), Body: []byte(body)}.Owed()
	keys, err := w.log.Plan(w.t.Context(), owed)
	if err != nil || len(keys) != 1 {
		w.t.Fatalf("planned %v: %v", keys, err)
	}
	return keys[0]
}

// release does what an operator does.
func (w *world) release() {
	w.t.Helper()
	if _, err := w.db.Pool("slotwise_notifier").Exec(w.t.Context(), `select notifier.release('{"kind": "event"}', 'anna')`); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wantState(key, want string) {
	w.t.Helper()
	var got string
	if err := w.db.Admin.QueryRow(w.t.Context(), `select state || ': ' || reason from notifier.send_log where key = $1`, key).Scan(&got); err != nil || got != want {
		w.t.Errorf("%s is %q, want %q: %v", key, got, want, err)
	}
}

// B15: an event of a later release is held, not lost; once this program can read it, and
// somebody releases it, what it owes is planned.
func TestB15ReleasedEventIsReadAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.bookings.Book(seed.Booking{Resource: "room-7"})
	body, err := b.Event.Encode()
	if err != nil {
		t.Fatal(err)
	}
	key := w.unread(b.Event.ID, `{"specversion":"2.0"}`)
	w.pass()
	w.wantState(key, "held: unreadable event: specversion is not 1.0") // nobody has released it
	w.exec(`update notifier.send_log set payload = jsonb_build_object('event', encode($1, 'base64'))`, body)
	w.release()
	w.pass()
	w.wantKeys(key, confirm(b))
	w.wantState(key, "skipped: read: what it owes is planned")
	w.release()
	w.pass()
	w.wantKeys(key, confirm(b))
}

func TestReleasedEventThatIsStillUnreadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key, nameless := w.unread("booking-x-v1", "no JSON"), w.unread("", "no JSON either")
	for range 2 {
		w.release()
		w.pass()
		w.wantState(key, "held: unreadable event: not JSON of this form")
		w.wantState(nameless, "held: unreadable event: not JSON of this form")
	}
	w.wantKeys(key, nameless)
	if key != id.Unreadable("booking-x-v1") {
		t.Errorf("key %s", key)
	}
}

// An event that owes nothing is done when it is read.
func TestReleasedEventThatOwesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.bookings.Annotate(w.bookings.Book(seed.Booking{Resource: "room-7"}), "a note")
	if owed := plan.Owed(b.Event); len(owed) != 0 {
		t.Fatalf("it owes %v", owed)
	}
	body, err := b.Event.Encode()
	if err != nil {
		t.Fatal(err)
	}
	key := w.unread(b.Event.ID, "x")
	w.exec(`update notifier.send_log set payload = jsonb_build_object('event', encode($1, 'base64'))`, body)
	w.release()
	w.pass()
	w.wantState(key, "skipped: read: what it owes is planned")
	w.wantKeys(key)
}
