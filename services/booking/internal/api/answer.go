package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// bookingJSON is a booking as openapi.yaml has it.
type bookingJSON struct {
	ID         string        `json:"id"`
	Version    int64         `json:"version"`
	Status     string        `json:"status"`
	Resource   string        `json:"resource"`
	Start      time.Time     `json:"start"`
	End        time.Time     `json:"end"`
	Zone       string        `json:"zone"`
	LocalStart time.Time     `json:"local_start"`
	LocalEnd   time.Time     `json:"local_end"`
	Seats      int           `json:"seats"`
	Name       string        `json:"name"`
	Address    string        `json:"address"`
	Locale     string        `json:"locale"`
	Note       string        `json:"note"`
	RemindAt   *time.Time    `json:"remind_at"`
	Messages   []messageJSON `json:"messages,omitzero"`
}

type messageJSON struct {
	Key        string     `json:"key"`
	Channel    string     `json:"channel"`
	Kind       string     `json:"kind"`
	Version    int64      `json:"version"`
	Role       string     `json:"role,omitempty"`
	Endpoint   string     `json:"endpoint,omitempty"`
	State      string     `json:"state"`
	Reason     string     `json:"reason,omitempty"`
	DueAt      time.Time  `json:"due_at"`
	HandedAt   *time.Time `json:"handed_at,omitempty"`
	AcceptedAt *time.Time `json:"accepted_at,omitempty"`
	Unknowns   int        `json:"unknowns"`
}

// encodeBooked answers 201, encodeChanged 200; both tell a refusal as its problem.
func encodeBooked(o app.Outcome) (app.Answer, error) {
	answer, err := encodeOutcome(http.StatusCreated, o)
	if answer.Status == http.StatusCreated {
		answer.Header["Location"] = "/v1/bookings/" + o.Booking.ID
	}
	return answer, err
}

func encodeChanged(o app.Outcome) (app.Answer, error) { return encodeOutcome(http.StatusOK, o) }

func encodeOutcome(status int, o app.Outcome) (app.Answer, error) {
	if o.Refusal == nil {
		return encode(status, o.Booking.Version, toJSON(o.Booking, o.Resource))
	}
	return problem(o.Refusal), nil
}

func encodeView(v app.View) (app.Answer, error) {
	b := toJSON(v.Booking, v.Resource)
	b.Messages = make([]messageJSON, 0, len(v.Messages))
	for _, m := range v.Messages {
		b.Messages = append(b.Messages, messageJSON{
			m.Key, m.Channel, m.Kind, m.Version, m.Role, m.Endpoint, m.State, m.Reason,
			m.DueAt.UTC(), orNull(m.HandedAt), orNull(m.AcceptedAt), m.Unknowns,
		})
	}
	return encode(http.StatusOK, b.Version, b)
}

func encode(status int, version int64, b any) (app.Answer, error) {
	body, err := json.Marshal(b)
	if err != nil {
		return app.Answer{}, fmt.Errorf("encode booking: %w", err)
	}
	return app.Answer{
		Status: status,
		Header: map[string]string{"Content-Type": "application/json", "ETag": fmt.Sprintf(`"%d"`, version)},
		Body:   append(body, '\n'),
	}, nil
}

func toJSON(b booking.Booking, r booking.Resource) bookingJSON {
	zone := location(r.Zone)
	return bookingJSON{
		ID: b.ID, Version: b.Version, Status: string(b.Status), Resource: b.Resource,
		Start: b.Start.UTC(), End: b.End.UTC(), Zone: r.Zone, LocalStart: b.Start.In(zone), LocalEnd: b.End.In(zone),
		Seats: b.Seats, Name: b.Contact.Name, Address: b.Contact.Address, Locale: b.Contact.Locale, Note: b.Contact.Note,
		RemindAt: orNull(b.RemindAt),
	}
}

// orNull is for JSON: a time that is zero is null or left out.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// locations are the zones that were asked for; time reads a file for each otherwise.
var locations sync.Map // string → *time.Location

// location returns the zone, or UTC when it has left the zone database since the resource was
// applied: the times stay true.
func location(name string) *time.Location {
	if known, ok := locations.Load(name); ok {
		return known.(*time.Location)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC
	}
	locations.Store(name, zone)
	return zone
}
