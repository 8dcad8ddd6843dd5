package booking

import (
	"errors"
	"fmt"
	"slices"
)

// Refusals, for callers that only need to know what kind it is.
var (
	ErrNotFound  = errors.New("there is no such booking")
	ErrVersion   = errors.New("the booking has changed")
	ErrCancelled = errors.New("the booking is cancelled")
	ErrErased    = errors.New("the person of this booking was erased")
	ErrOver      = errors.New("the booking is over")
)

// TakenError says that the seats asked for are not free throughout the time.
type TakenError struct {
	Field       string // what to ask for differently: start or seats
	Asked, Left int    // seats; Left are free throughout the time, 0 or more
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("%d of the seats are free at that time, %d asked for", e.Left, e.Asked)
}

// Fault is what is wrong with one field of what was asked for.
type Fault struct {
	Field  string // its JSON name
	Detail string
}

// InvalidError lists everything that is wrong with what was asked for.
type InvalidError struct{ Faults []Fault }

func (e *InvalidError) Error() string {
	return fmt.Sprintf("%d faults, the first: %s %s", len(e.Faults), e.Faults[0].Field, e.Faults[0].Detail)
}

// Refused reports whether err is this package's answer: asking again, with nothing changed,
// gives the same. Any other error says nothing about the booking.
func Refused(err error) bool {
	if _, ok := errors.AsType[*InvalidError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*TakenError](err); ok {
		return true
	}
	return slices.ContainsFunc([]error{ErrNotFound, ErrVersion, ErrCancelled, ErrErased, ErrOver}, func(kind error) bool {
		return errors.Is(err, kind)
	})
}

// faults collects at most one fault a field.
type faults []Fault

// add notes the detail, unless there is none.
func (f *faults) add(field, detail string) {
	if detail != "" {
		*f = append(*f, Fault{field, detail})
	}
}

// err is nil when there is no fault.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return &InvalidError{f}
}
