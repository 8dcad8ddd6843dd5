package booking

import (
	"fmt"
	"time"
)

// minNotice is how far ahead a reminder must lie: less, and the confirmation has just gone.
const minNotice = time.Minute

// Kind says what happened to a booking, as consumers of its events are told.
type Kind string

// The kinds of changes.
const (
	KindConfirmed   Kind = "confirmed"
	KindRescheduled Kind = "rescheduled"
	KindCancelled   Kind = "cancelled"
	KindChanged     Kind = "changed"
)

// Change is one step of a booking.
type Change struct {
	Before Booking // empty when it was just booked
	After  Booking
	Kind   Kind
	Fields []string // names of what it changed; none: nothing happened, and After is Before
}

// None reports whether the step changed nothing, which is no version.
func (c Change) None() bool { return len(c.Fields) == 0 }

// Owes reports whether the change owes its customer a mail.
func (c Change) Owes() bool {
	return !c.None() && c.After.ToldCustomer == c.After.Version && !c.After.erased()
}

// Terms are what a step is decided under, beside the booking itself.
type Terms struct {
	Resource Resource
	Lead     time.Duration // how long before a start reminders are due, where the resource says nothing; 0: none
	Now      time.Time
}

// Request is what a customer asks for.
type Request struct {
	Resource string
	Start    time.Time // fractions of a second are dropped
	Seats    int
	Name     string
	Address  string
	Locale   string
	Note     string
}

// Check returns what is wrong with r by itself, whatever the time and the resource are.
func (r Request) Check() []Fault {
	var faults faults
	if !slug.MatchString(r.Resource) {
		faults.add("resource", noResource)
	}
	if r.Start.IsZero() {
		faults.add("start", "is required")
	}
	if r.Seats < 1 {
		faults.add("seats", "must be at least 1")
	}
	faults.add("name", lineFault(tidyName(r.Name), maxName))
	faults.add("address", addressFault(r.Address))
	faults.add("locale", localeFault(r.Locale))
	faults.add("note", noteFault(tidyNote(r.Note)))
	return faults
}

const noResource = "there is no such resource"

// Book makes the booking id of r for customer (UUID of whoever has r's address).
func Book(id, customer string, r Request, t Terms) (Change, error) {
	faults := faults(r.Check())
	start := tidyStart(r.Start)
	switch {
	case t.Resource.ID == "":
		return Change{}, &InvalidError{[]Fault{{"resource", noResource}}}
	case t.Resource.Retired:
		faults.add("resource", "takes no new bookings")
	}
	if !r.Start.IsZero() {
		faults.add("start", startFault(start, t.Now))
	}
	faults.add("seats", t.Resource.seatsFault(r.Seats))
	if err := faults.err(); err != nil {
		return Change{}, err
	}
	b := Booking{
		ID: id, Resource: r.Resource, Status: Confirmed, Seats: r.Seats,
		Start: start, End: start.Add(t.Resource.Slot()),
		CreatedAt: t.Now,
		Contact:   Contact{customer, tidyName(r.Name), r.Address, r.Locale, tidyNote(r.Note)},
	}
	b.advance(t, telling{customer: true, host: true})
	b.schedule(t)
	return Change{After: b, Kind: KindConfirmed, Fields: []string{"status", "start", "end", "seats"}}, nil
}

// Move lets b begin at start. It keeps its length, and its seats when they are free there.
func (b Booking) Move(start time.Time, t Terms) (Change, error) {
	start = tidyStart(start)
	switch fault := startFault(start, t.Now); {
	case b.Status == Cancelled:
		return Change{}, fmt.Errorf("move: %w", ErrCancelled)
	case start.Equal(b.Start):
		return Change{Before: b, After: b, Kind: KindRescheduled}, nil
	case fault != "":
		return Change{}, &InvalidError{[]Fault{{"start", fault}}}
	}
	after := b
	after.Start, after.End = start, start.Add(b.End.Sub(b.Start))
	after.advance(t, telling{customer: true, host: true})
	after.schedule(t)
	return Change{b, after, KindRescheduled, []string{"start", "end"}}, nil
}

// Cancel ends b and frees its seats. Cancelling twice changes nothing.
func (b Booking) Cancel(t Terms) Change {
	if b.Status == Cancelled {
		return Change{Before: b, After: b, Kind: KindCancelled}
	}
	after := b
	after.Status = Cancelled
	after.advance(t, telling{customer: true, host: true})
	after.StartVersion, after.RemindAt = after.Version, time.Time{}
	return Change{b, after, KindCancelled, []string{"status"}}
}

// telling is who is owed a mail by a change.
type telling struct{ customer, host bool }

// advance makes b the next version of itself, which owes mails to those in tell.
func (b *Booking) advance(t Terms, tell telling) {
	b.Version++
	b.ChangedAt = t.Now
	if tell.customer {
		b.ToldCustomer = b.Version
	}
	if tell.host && t.Resource.HostAddress != "" {
		b.ToldHost = b.Version
	}
}

// schedule notes that this version has set the start, and when its reminder is due. A later
// change of the lead does not touch it.
func (b *Booking) schedule(t Terms) {
	b.StartVersion, b.RemindAt = b.Version, time.Time{}
	lead := t.Resource.lead(t.Lead)
	if at := b.Start.Add(-lead); lead > 0 && !at.Before(t.Now.Add(minNotice)) {
		b.RemindAt = at
	}
}

func (r Resource) seatsFault(seats int) string {
	if seats > r.Capacity {
		return fmt.Sprintf("must be at most %d", r.Capacity)
	}
	return ""
}
