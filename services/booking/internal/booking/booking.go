// Package booking is the domain: what a booking is, which steps it may take, what each step
// changes and who is then owed a mail. Values go in and values come out; the time is a
// parameter. How bookings are stored and asked for lies in other packages.
package booking

import "time"

// Status is whether a booking stands.
type Status string

// A booking is confirmed until it is cancelled, for good.
const (
	Confirmed Status = "confirmed"
	Cancelled Status = "cancelled"
)

// Booking is one booking as it stands at Version.
type Booking struct {
	ID       string // UUID
	Resource string
	Status   Status
	Start    time.Time // UTC, whole seconds
	End      time.Time // half-open: another booking may start at this instant
	Seats    int

	// The facts that everybody else only compares.
	Version      int64     // 1, then one more with every change
	StartVersion int64     // the version that last set time or status
	RemindAt     time.Time // zero: no reminder is owed
	ToldCustomer int64     // the version that last owed the customer a mail
	ToldHost     int64     // the same for the resource's host; 0: never

	CreatedAt time.Time
	ChangedAt time.Time
	Contact   Contact
}

// Contact is the person of one booking. It is empty once the person was erased.
type Contact struct {
	Customer string // UUID: who this is across bookings
	Name     string
	Address  string // as typed; mails go there
	Locale   string // BCP 47; empty: not told
	Note     string
}

// Span is when the booking takes its seats.
func (b Booking) Span() Span { return Span{b.Start, b.End} }

// erased reports whether the person of a stored booking was erased.
func (b Booking) erased() bool { return b.Contact.Customer == "" }
