package app

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/slotwise/slotwise/pkg/failpoint"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// Bookings are the use cases.
type Bookings struct {
	Store Store
	Bell  Bell
	Lead  time.Duration // how long before a start reminders are due, where a resource says nothing; 0: none
	Mails int           // how many mails a customer may be owed in an hour; 0: any number
}

// Call is what every change carries beside what it asks for.
type Call struct {
	Key      Key
	Trace    string
	Sees     func(resource string) bool // whether the caller may know of a resource's bookings; nil: of all
	Customer string                     // UUID of the caller, who must be the booking's contact, before its end; empty: no customer calls
	Match    func(version int64) bool   // whether the caller means the booking as it stands; nil: no matter
	Encode   Encode
}

// Book makes a booking.
func (s Bookings) Book(ctx context.Context, call Call, r booking.Request) (Answer, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Answer{}, fmt.Errorf("draw a booking's id: %w", err)
	}
	ask := Ask{Resource: r.Resource, Seats: true, Address: booking.Normalise(r.Address)}
	return s.change(ctx, ask, call, func(f Facts) (booking.Change, error) {
		return booking.Book(id.String(), f.Customer, r, s.terms(f))
	})
}

// Edit corrects the booking id.
func (s Bookings) Edit(ctx context.Context, call Call, id string, e booking.Edit) (Answer, error) {
	ask := Ask{Booking: id, Seats: e.Seats != nil}
	if e.Address != nil {
		ask.Address = booking.Normalise(*e.Address)
	}
	return s.change(ctx, ask, call, func(f Facts) (booking.Change, error) {
		return f.Booking.Edit(e, f.Customer, s.terms(f))
	})
}

// Move lets the booking id begin at start.
func (s Bookings) Move(ctx context.Context, call Call, id string, start time.Time) (Answer, error) {
	return s.change(ctx, Ask{Booking: id, Seats: true}, call, func(f Facts) (booking.Change, error) {
		return f.Booking.Move(start, s.terms(f))
	})
}

// Cancel ends the booking id.
func (s Bookings) Cancel(ctx context.Context, call Call, id string) (Answer, error) {
	return s.change(ctx, Ask{Booking: id, Seats: true}, call, func(f Facts) (booking.Change, error) {
		return f.Booking.Cancel(s.terms(f)), nil
	})
}

// Get shows the booking id.
func (s Bookings) Get(ctx context.Context, id string) (View, error) {
	return s.Store.Get(ctx, id)
}

// GetFor shows the booking id to customer, without what is only an operator's matter. If it is
// not, or no longer, this customer's, there is no such booking.
func (s Bookings) GetFor(ctx context.Context, customer, id string) (View, error) {
	view, err := s.Store.Get(ctx, id)
	if err == nil && view.Booking.Contact.Customer != customer {
		err = fmt.Errorf("as its customer: %w", booking.ErrNotFound)
	}
	if err != nil {
		return View{}, err
	}
	view.Messages, view.Resource.HostAddress = nil, ""
	return view, nil
}

func (s Bookings) change(ctx context.Context, ask Ask, call Call, step Step) (Answer, error) {
	ask.Key, ask.Trace, ask.Mails = call.Key, call.Trace, s.Mails
	answer, changed, err := s.Store.Change(ctx, ask, func(f Facts) (booking.Change, error) {
		if f.Booking.ID != "" && call.Sees != nil && !call.Sees(f.Booking.Resource) {
			return booking.Change{}, fmt.Errorf("of another resource: %w", booking.ErrNotFound)
		}
		if call.Customer != "" && call.Customer != f.Booking.Contact.Customer {
			return booking.Change{}, fmt.Errorf("as its customer: %w", booking.ErrNotFound)
		}
		if call.Match != nil && !call.Match(f.Booking.Version) {
			return booking.Change{}, fmt.Errorf("version %d: %w", f.Booking.Version, booking.ErrVersion)
		}
		if call.Customer != "" && !f.Now.Before(f.Booking.End) {
			return booking.Change{}, fmt.Errorf("as its customer: %w", booking.ErrOver)
		}
		return step(f)
	}, call.Encode)
	if changed {
		failpoint.Hit("booking.committed")
		s.Bell.Ring()
	}
	return answer, err
}

func (s Bookings) terms(f Facts) booking.Terms {
	return booking.Terms{Resource: f.Resource, Lead: s.Lead, Now: f.Now}
}
