package app

import (
	"context"

	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// Told is the highest version of a booking that consumers have been told.
type Told struct {
	Booking string
	Version int64
}

// Raise raises the booking above what consumers have been told of it, after the database went
// back to an earlier point; see [booking.Booking.Raise]. It reports whether that made a version,
// and fails with [booking.ErrNotFound] when the booking was lost.
func (s Bookings) Raise(ctx context.Context, told Told) (raised bool, err error) {
	refusal := func(o Outcome) (Answer, error) { return Answer{}, o.Refusal } // nobody waits for an answer
	_, err = s.change(ctx, Ask{Booking: told.Booking}, Call{Encode: refusal}, func(f Facts) (booking.Change, error) {
		c := f.Booking.Raise(told.Version, s.terms(f))
		raised = !c.None()
		return c, nil
	})
	return raised, err
}
