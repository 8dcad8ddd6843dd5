// Package app holds the use cases: what is asked of one booking, as a pure step from how it
// stands to how it stands next. The [Store] runs the step under the booking's locks, in one
// transaction with the event that tells it and the answer that a repeat of the request gets.
// After the commit the doorbell rings; nobody waits for it.
package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// Errors that are no answer of the domain. None of them is kept under an idempotency key.
var (
	// ErrKeyRunning: a request with this idempotency key is running now; its outcome is open.
	ErrKeyRunning = errors.New("a request with this idempotency key is still running")
	// ErrKeyReused: the idempotency key belongs to another request.
	ErrKeyReused = errors.New("the idempotency key was used for another request")
	// ErrAway: the database can't be reached or can't work now. Whether a change took effect is
	// not known; asking again under the same idempotency key tells.
	ErrAway = errors.New("the database is away")
)

// TooManyMailsError says that the change would owe a customer one mail too many: see
// [Ask].Mails. It is no answer to keep: the same request may succeed later.
type TooManyMailsError struct {
	Wait time.Duration // until it may, if nothing else is owed meanwhile; at least a second
}

func (e *TooManyMailsError) Error() string {
	return fmt.Sprintf("the customer was owed too many mails in the last hour, ask again in %s", e.Wait)
}

// Store keeps bookings.
type Store interface {
	// Change runs step and keeps what comes of it, or nothing. It reports whether there is a
	// new version.
	Change(ctx context.Context, ask Ask, step Step, encode Encode) (answer Answer, changed bool, err error)
	// Get reads a booking with what became of its messages, or returns [booking.ErrNotFound].
	Get(ctx context.Context, id string) (View, error)
}

// Bell is rung after each commit of a change. Ring returns at once.
type Bell interface{ Ring() }

// Ask says which rows a step needs, before it runs.
type Ask struct {
	Key      Key
	Resource string // whose new booking it is; empty for a change of Booking
	Booking  string
	Seats    bool   // the step may change time, seats or status: the resource is locked
	Address  string // whose customer id the step needs, normalised; empty: nobody's
	Mails    int    // how many mails a customer may be owed in an hour; 0: any number. Cancelling always may owe one
	Trace    string // W3C traceparent of the request; empty: none
}

// Step decides the next state from facts that were read under the locks that [Ask] names. It
// is pure and may run again.
type Step func(Facts) (booking.Change, error)

// Facts are what a step decides from.
type Facts struct {
	Booking  booking.Booking
	Resource booking.Resource // its ID is empty when there is no such resource
	Customer string           // of [Ask].Address; a new UUID when nobody has it yet
	Wait     time.Duration    // for how long that customer may be owed no other mail, as far as it is known before the lock
	Now      time.Time        // by the database's clock, after the locks
}

// Key is an idempotency key. Within 24 hours the same name with the same fingerprint gets the
// same answer; with another fingerprint it is refused.
//
// A name is its caller's own: what somebody else keeps under the same name is neither given nor
// in the way. Nobodys lets the caller have what was kept for nobody too, which is how it was
// before callers were known.
type Key struct {
	Name        string // empty: the request has none
	Caller      string // such as an API key's id; empty: nobody
	Nobodys     bool
	Fingerprint []byte // of what was asked for
}

// Outcome is what a step came to: the booking, or why it was refused.
type Outcome struct {
	Booking  booking.Booking
	Resource booking.Resource
	Refusal  error // of package booking
}

// Answer is what the client gets, kept under the idempotency key.
type Answer struct {
	Status int
	Header map[string]string
	Body   []byte
}

// Encode writes the answer that tells an outcome. It runs inside the transaction.
type Encode func(Outcome) (Answer, error)

// View is a booking as it is shown.
type View struct {
	Booking  booking.Booking
	Resource booking.Resource
	Messages []Message // oldest first
}

// Message is what became of one message that the booking owes, or owed.
type Message struct {
	Key        string
	Channel    string
	Kind       string
	Version    int64 // of the booking; 0: about none
	Role       string
	Endpoint   string
	State      string
	Reason     string
	DueAt      time.Time
	HandedAt   time.Time // zero: never
	AcceptedAt time.Time // zero: never
	Unknowns   int
}
