package event_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/event"
)

var update = flag.Bool("update", false, "write the golden files")

const booking = "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"

func data() event.Data {
	start := time.Date(2026, 12, 3, 13, 0, 0, 0, time.UTC)
	remind := start.Add(-24 * time.Hour)
	return event.Data{
		Booking: booking, Version: 3, StartVersion: 3, ToldCustomer: 3, ToldHost: 3,
		Status: event.StatusConfirmed, Resource: "room-7", Start: start, End: start.Add(time.Hour),
		Zone: "Europe/Berlin", Seats: 2, Customer: "01928c7e-0000-7000-8000-000000000001", RemindAt: &remind,
		Changed: []string{"start", "end"},
	}
}

var at = time.Date(2026, 12, 1, 9, 0, 0, 123456789, time.UTC)

// The golden files are the contract: one that changes breaks somebody.
func TestGolden(t *testing.T) {
	cancelled := data()
	cancelled.Status, cancelled.RemindAt, cancelled.Changed = event.StatusCancelled, nil, []string{"status"}
	erased := data()
	erased.Customer, erased.RemindAt, erased.Changed = "", nil, []string{"contact"}
	tests := map[string]event.Event{
		"confirmed":   event.New(event.Confirmed, at, data()),
		"rescheduled": event.New(event.Rescheduled, at, data()),
		"cancelled":   event.New(event.Cancelled, at, cancelled),
		"changed":     event.New(event.Changed, at, data()),
		"erased":      event.New(event.Erased, at, erased),
	}
	for name, e := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := e.Encode()
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "v1."+name+".json")
			if *update {
				if err := os.WriteFile(file, append(got, '\n'), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, bytes.TrimSpace(want)) {
				t.Errorf("event = %s\nwant    %s", got, want)
			}
			back, err := event.Decode(want)
			if err != nil || !reflect.DeepEqual(back, e) {
				t.Errorf("Decode = %+v, %v\nwant     %+v", back, err, e)
			}
		})
	}
}

func TestNATSSubject(t *testing.T) {
	if got, want := event.New(event.Rescheduled, at, data()).NATSSubject(), "booking.v1.rescheduled.room-7."+booking; got != want {
		t.Errorf("NATSSubject = %q, want %q", got, want)
	}
}

func TestDecodeIgnoresNewFields(t *testing.T) {
	body, err := event.New(event.Changed, at, data()).Encode()
	if err != nil {
		t.Fatal(err)
	}
	grown := strings.Replace(string(body), `"seats"`, `"colour":"red","seats"`, 1)
	if _, err := event.Decode([]byte(grown)); err != nil {
		t.Errorf("Decode with a new field = %v", err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	tests := map[string]func(*event.Event){
		"other specversion":   func(e *event.Event) { e.SpecVersion = "0.3" },
		"unknown type":        func(e *event.Event) { e.Type = "booking.v1.moved" },
		"foreign id":          func(e *event.Event) { e.ID = "booking-x-v3" },
		"foreign subject":     func(e *event.Event) { e.Subject = "x" },
		"version zero":        func(e *event.Event) { e.Data.Version = 0 },
		"start version ahead": func(e *event.Event) { e.Data.StartVersion = 4 },
		"told ahead":          func(e *event.Event) { e.Data.ToldHost = 4 },
		"unknown status":      func(e *event.Event) { e.Data.Status = "held" },
		"end before start":    func(e *event.Event) { e.Data.End = e.Data.Start },
		"no zone":             func(e *event.Event) { e.Data.Zone = "" },
		"null in zone":        func(e *event.Event) { e.Data.Zone = "Europe/\x00Berlin" },
		"no seats":            func(e *event.Event) { e.Data.Seats = 0 },
		"booking no UUID":     func(e *event.Event) { e.Data.Booking, e.Subject, e.ID = "b1", "b1", "booking-b1-v3" },
		"resource with dot":   func(e *event.Event) { e.Data.Resource = "a.b" },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			e := event.New(event.Rescheduled, at, data())
			spoil(&e)
			body, err := e.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := event.Decode(body); !errors.Is(err, event.ErrUnreadable) {
				t.Errorf("Decode = %v, want ErrUnreadable", err)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	body, err := event.New(event.Confirmed, at, data()).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := event.Decode(body)
		if err != nil {
			if !errors.Is(err, event.ErrUnreadable) {
				t.Errorf("error of another kind: %v", err)
			}
			return
		}
		again, err := e.Encode()
		if err != nil {
			t.Fatalf("encode what was decoded: %v", err)
		}
		if _, err := event.Decode(again); err != nil {
			t.Errorf("decode what was encoded: %v", err)
		}
	})
}

func TestReminderSubjects(t *testing.T) {
	r := event.Reminder{Booking: booking, StartVersion: 2}
	if got, want := r.ScheduleSubject(), "reminder.at."+booking+".2"; got != want {
		t.Errorf("ScheduleSubject = %q, want %q", got, want)
	}
	if got, err := event.ParseDueSubject(r.DueSubject()); err != nil || got != r {
		t.Errorf("ParseDueSubject = %+v, %v", got, err)
	}
	for _, bad := range []string{"", "reminder.due.", "reminder.due.x", "reminder.due.x.0", "reminder.due.x.1.2", "reminder.at.x.1", "reminder.due.a>.1"} {
		if _, err := event.ParseDueSubject(bad); !errors.Is(err, event.ErrSubject) {
			t.Errorf("ParseDueSubject(%q) = %v, want ErrSubject", bad, err)
		}
	}
}
