// Package event is the contract with everybody who consumes booking events: a versioned
// snapshot of a booking's facts as a CloudEvent 1.0 in structured JSON.
//
// Within v1 a field may be added, but never renamed, retyped or given another meaning:
// that would be v2. There is never a person in an event: no name, address, note or link.
// A consumer ignores an event whose version is not higher than the last it saw of that
// booking; events of one booking may come late, twice, or after a newer one.
package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/slotwise/slotwise/pkg/id"
)

// Type says what changed. It is the event's CloudEvents type and the first three tokens of
// its NATS subject.
type Type string

// The types of v1.
const (
	Confirmed   Type = "booking.v1.confirmed"   // booked
	Rescheduled Type = "booking.v1.rescheduled" // start and end moved
	Cancelled   Type = "booking.v1.cancelled"   // gone
	Changed     Type = "booking.v1.changed"     // seats, or something about the contact
	Erased      Type = "booking.v1.erased"      // the person was erased; what waits is not sent
)

// Types are all types of v1, in the order of the documentation.
var Types = []Type{Confirmed, Rescheduled, Cancelled, Changed, Erased}

// Source is the CloudEvents source of every event.
const Source = "/slotwise/booking"

// Status is whether a booking stands.
type Status string

// A booking is confirmed until it is cancelled.
const (
	StatusConfirmed Status = "confirmed"
	StatusCancelled Status = "cancelled"
)

// ErrUnreadable says that bytes are no event of this contract. It never holds the bytes.
var ErrUnreadable = errors.New("unreadable event")

// Event is the CloudEvents envelope.
type Event struct {
	SpecVersion     string    `json:"specversion"` // "1.0"
	ID              string    `json:"id"`          // id.Event(booking, version): the same on every publish
	Source          string    `json:"source"`
	Type            Type      `json:"type"`
	Subject         string    `json:"subject"` // the booking
	Time            time.Time `json:"time"`    // when the change was made: UTC, microseconds
	DataContentType string    `json:"datacontenttype"`
	Data            Data      `json:"data"`
}

// Data is a booking as it stood at Version.
type Data struct {
	Booking      string     `json:"booking"`
	Version      int64      `json:"version"`       // 1, then one more with every change
	StartVersion int64      `json:"start_version"` // the version that last set time or status
	ToldCustomer int64      `json:"told_customer"` // the version that last owed the customer a mail; 0: never
	ToldHost     int64      `json:"told_host"`     // the same for the resource's host
	Status       Status     `json:"status"`
	Resource     string     `json:"resource"`
	Start        time.Time  `json:"start"` // UTC
	End          time.Time  `json:"end"`   // UTC; the interval is half-open
	Zone         string     `json:"zone"`  // IANA name of the resource's time zone
	Seats        int        `json:"seats"`
	Customer     string     `json:"customer,omitempty"`  // who booked, as an id; absent once erased
	RemindAt     *time.Time `json:"remind_at,omitempty"` // absent: no reminder is owed
	Changed      []string   `json:"changed"`             // names of what this version changed
}

// New returns the event of typ that tells data, which happened at the time at.
func New(typ Type, at time.Time, data Data) Event {
	data.Start, data.End = instant(data.Start), instant(data.End)
	if data.RemindAt != nil {
		remind := instant(*data.RemindAt)
		data.RemindAt = &remind
	}
	if data.Changed == nil {
		data.Changed = []string{}
	}
	return Event{
		SpecVersion:     "1.0",
		ID:              id.Event(data.Booking, data.Version),
		Source:          Source,
		Type:            typ,
		Subject:         data.Booking,
		Time:            instant(at),
		DataContentType: "application/json",
		Data:            data,
	}
}

// instant is t as this contract writes times: UTC, microseconds (what PostgreSQL keeps).
func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// NATSSubject is where the event is published:
// booking.v1.<what happened>.<resource>.<booking>.
func (e Event) NATSSubject() string {
	return fmt.Sprintf("%s.%s.%s", e.Type, e.Data.Resource, e.Data.Booking)
}

// Encode returns the event as structured JSON.
func (e Event) Encode() ([]byte, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	return body, nil
}

// Decode reads an event. Fields that it does not know are ignored, because the contract
// grows; anything that is missing or contradicts itself is [ErrUnreadable].
func Decode(body []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(body, &e); err != nil {
		return Event{}, fmt.Errorf("%w: not JSON of this form", ErrUnreadable)
	}
	if fault := e.fault(); fault != "" {
		return Event{}, fmt.Errorf("%w: %s", ErrUnreadable, fault)
	}
	return e, nil
}

// zoneForm is the form of names in the time zone database. Nothing that PostgreSQL or a mail
// could not carry passes.
var zoneForm = regexp.MustCompile(`^[A-Za-z0-9_+/-]{1,64}$`)

// fault names the first thing that is wrong with the event, or is empty.
func (e Event) fault() string {
	d := e.Data
	switch {
	case e.SpecVersion != "1.0":
		return "specversion is not 1.0"
	case !slices.Contains(Types, e.Type):
		return "unknown type"
	case !id.IsBooking(d.Booking) || id.Check(d.Resource) != nil:
		return "booking or resource is no id"
	case d.Version < 1 || d.StartVersion < 1 || d.StartVersion > d.Version:
		return "version or start_version out of range"
	case d.ToldCustomer < 0 || d.ToldCustomer > d.Version || d.ToldHost < 0 || d.ToldHost > d.Version:
		return "told_customer or told_host out of range"
	case e.ID != id.Event(d.Booking, d.Version) || e.Subject != d.Booking:
		return "id or subject is not the booking's"
	case d.Status != StatusConfirmed && d.Status != StatusCancelled:
		return "unknown status"
	case e.Time.IsZero() || d.Start.IsZero() || !d.End.After(d.Start):
		return "time, start or end is missing or out of order"
	case !zoneForm.MatchString(d.Zone):
		return "zone has not the form of a time zone's name"
	case d.Seats < 1:
		return "seats is missing"
	}
	return ""
}
