package seed_test

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/seed"
)

// Each change is a version with the facts of design §3 and an event that can be read.
func TestChanges(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	bookings := seed.New(t, db.Admin)
	bookings.Resource(seed.Resource{ID: "room-7", Host: "host@rooms.example"})
	b := bookings.Book(seed.Booking{Resource: "room-7", Lead: time.Hour})
	steps := []struct {
		what                            string
		change                          func() seed.Booking
		version, start, customer, hosts int64
		reminder                        bool
	}{
		{"book", func() seed.Booking { return b }, 1, 1, 1, 1, true},
		{"move", func() seed.Booking { return bookings.Move(b, b.Start.Add(time.Hour)) }, 2, 2, 2, 2, true},
		{"seats", func() seed.Booking { return bookings.Reseat(b, 3) }, 3, 2, 3, 3, true},
		{"note", func() seed.Booking { return bookings.Annotate(b, "hello") }, 4, 2, 3, 3, true},
		{"address", func() seed.Booking { return bookings.Readdress(b, "new@customers.example") }, 5, 2, 5, 3, true},
		{"cancel", func() seed.Booking { return bookings.Cancel(b) }, 6, 6, 6, 6, false},
		{"erase", func() seed.Booking { return bookings.Erase(b) }, 7, 6, 6, 6, false},
	}
	for _, step := range steps {
		b = step.change()
		if b.Version != step.version || b.StartVersion != step.start || b.ToldCustomer != step.customer || b.ToldHost != step.hosts || (b.RemindAt != nil) != step.reminder {
			t.Errorf("%s: %+v", step.what, b)
		}
		body, err := b.Event.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := event.Decode(body); err != nil {
			t.Errorf("%s: %v", step.what, err)
		}
	}
	var rows int
	if err := db.Admin.QueryRow(t.Context(), `select count(*) from booking.outbox_events`).Scan(&rows); err != nil || rows != len(steps) {
		t.Errorf("%d outbox rows, %v, want %d", rows, err, len(steps))
	}
}
