package plan_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/seed"
)

// Every kind of change is told to endpoints, whether somebody is owed a mail for it or not; the
// bodies are the events, byte for byte. B123: three people book one three-seat slot.
func TestB123EveryEventIsAnnounced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.db.Admin.Exec(t.Context(), `
		insert into notifier.endpoints (id, url, created_at) values ('we_1', 'https://hooks.example/', now() - interval '1 day')`); err != nil {
		t.Fatal(err)
	}
	w.run(w.planner(w.log))
	var events []event.Event
	publish := func(b seed.Booking) seed.Booking {
		events = append(events, b.Event)
		w.publishEvent(b.Event, b.Event.ID)
		return b
	}
	b := publish(w.bookings.Book(seed.Booking{Resource: "room-7"}))
	publish(w.bookings.Book(seed.Booking{Resource: "room-7"}))
	publish(w.bookings.Book(seed.Booking{Resource: "room-7"}))
	b = publish(w.bookings.Move(b, b.Start.Add(b.Length)))
	b = publish(w.bookings.Reseat(b, 2))
	b = publish(w.bookings.Readdress(b, "bob@customers.example"))
	b = publish(w.bookings.Annotate(b, "a note"))
	b = publish(w.bookings.Cancel(b))
	publish(w.bookings.Erase(b))
	w.publishEvent(b.Event, "again-"+b.Event.ID) // past the stream's window for duplicates
	w.settled(topology.Bookings, topology.Planner)

	bodies := map[string]string{}
	for _, e := range events {
		body, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		bodies[id.Webhook(e.ID, "we_1")] = string(body)
	}
	rows, _ := w.db.Admin.Query(t.Context(), `select key, payload from notifier.send_log where channel = 'webhook'`)
	webhooks, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
		Key     string
		Payload sendlog.Facts
	}])
	if err != nil {
		t.Fatal(err)
	}
	if len(webhooks) != len(events) {
		t.Errorf("%d webhooks for %d events", len(webhooks), len(events))
	}
	for _, p := range webhooks {
		if bodies[p.Key] != string(p.Payload.Event) {
			t.Errorf("%s tells %s, want %s", p.Key, p.Payload.Event, bodies[p.Key])
		}
	}
	mails := w.planned()
	if n := len(slices.DeleteFunc(mails, func(p planned) bool { return p.Key[:7] != "email-c" && p.Key[:7] != "email-m" })); n == 0 {
		t.Error("no mails were planned beside them")
	}
}
