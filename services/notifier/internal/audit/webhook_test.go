package audit_test

import (
	"testing"

	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/testkit/seed"
)

// endpoint writes one that was there before all bookings of a test.
func (w *world) endpoint(name string) {
	w.t.Helper()
	w.exec(`insert into notifier.endpoints (id, url, created_at) values ($1, 'https://hooks.example/', now() - interval '1 day')`, name)
}

func webhook(e event.Event, endpoint string) string { return id.Webhook(e.ID, endpoint) }

// The store was wiped before anybody read it: the audit plans webhooks as well as mails, also of
// events that owe no mail, counts them, and finds nothing to do the next time.
func TestB116AuditPlansWebhooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint("we_1")
	w.endpoint("we_2")
	w.exec(`update notifier.endpoints set resources = '{room-8}' where id = 'we_2'`)
	booked := w.bookings.Book(seed.Booking{Resource: "room-7", Age: old})
	noted := w.bookings.Annotate(booked, "a note")
	erased := w.bookings.Erase(noted)
	w.bookings.Book(seed.Booking{Resource: "room-7"}) // too young
	w.pass()
	w.wantKeys(confirm(booked), webhook(booked.Event, "we_1"), webhook(noted.Event, "we_1"), webhook(erased.Event, "we_1"))
	if got := counted(t, w.audit); got["webhook"] != 3 || got["confirm"] != 1 {
		t.Errorf("counted %v", got)
	}
	w.exec(`update notifier.progress set mark = 0`)
	w.pass()
	if got := counted(t, w.audit); got["webhook"] != 3 {
		t.Errorf("counted again: %v", got)
	}
}

// An endpoint that is younger than an event is never told of it, however often it is read.
func TestAuditAndAYoungEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.bookings.Book(seed.Booking{Resource: "room-7", Age: old})
	w.exec(`insert into notifier.endpoints (id, url) values ('we_1', 'https://hooks.example/')`)
	w.pass()
	w.wantKeys(confirm(b))
}

// B125: one endpoint's row is broken. Mails and the other's webhooks are planned all the same.
func TestB125BrokenEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint("we_1")
	w.endpoint("we_2")
	w.exec(`update notifier.endpoints set url = null, event_types = '{null}' where id = 'we_1'`)
	w.exec(`update notifier.endpoints set url = null where id = 'we_2'`)
	w.endpoint("we_3")
	b := w.bookings.Book(seed.Booking{Resource: "room-7", Age: old})
	w.pass()
	w.wantKeys(confirm(b), webhook(b.Event, "we_2"), webhook(b.Event, "we_3"))
}

// An event that nobody could read owes its webhooks once it is released and can be read.
func TestReleasedEventOwesWebhooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint("we_1")
	b := w.bookings.Annotate(w.bookings.Book(seed.Booking{Resource: "room-7"}), "a note")
	body, err := b.Event.Encode()
	if err != nil {
		t.Fatal(err)
	}
	key := w.unread(b.Event.ID, "x")
	w.exec(`update notifier.send_log set payload = jsonb_build_object('event', encode($1, 'base64'))`, body)
	w.release()
	w.pass()
	w.wantState(key, "skipped: read: what it owes is planned")
	w.wantKeys(key, webhook(b.Event, "we_1"))
}
