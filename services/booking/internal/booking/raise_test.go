package booking_test

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// A booking of a restored database becomes the version after the highest that was told, owes
// everybody a mail, and sets its start again.
func TestRaise(t *testing.T) {
	b := booked(t)
	later := terms(func(t *booking.Terms) { t.Now = now.Add(time.Hour) })
	for _, above := range []int64{0, b.Version} {
		if c := b.Raise(above, later); !c.None() || c.After != b {
			t.Errorf("Raise(%d) = %+v, want no change", above, c)
		}
	}
	c := b.Raise(7, later)
	after := c.After
	if after.Version != 8 || after.StartVersion != 8 || after.ToldCustomer != 8 || after.ToldHost != 8 || !c.Owes() || c.Kind != booking.KindChanged {
		t.Errorf("Raise(7) = %+v", c)
	}
	if !after.RemindAt.Equal(b.Start.Add(-24*time.Hour)) || after.Start != b.Start || after.Contact != b.Contact || !c.Seating().None() {
		t.Errorf("Raise(7) has changed more than it tells: %+v", c)
	}
	cancelled := b.Cancel(later).After
	if c := cancelled.Raise(7, later); c.After.Status != booking.Cancelled || !c.After.RemindAt.IsZero() || c.After.Version != 8 {
		t.Errorf("of a cancelled booking: %+v", c.After)
	}
}
