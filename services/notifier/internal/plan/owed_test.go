package plan_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/services/notifier/internal/plan"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

const booking = "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"

var (
	changedAt = time.Date(2026, 12, 1, 9, 0, 0, 123456000, time.UTC)
	start     = time.Date(2026, 12, 3, 13, 0, 0, 0, time.UTC)
)

// told is the event of version 3, after which the last mails owed are those of the versions.
func told(typ event.Type, status event.Status, customer, host int64) event.Event {
	return event.New(typ, changedAt, event.Data{
		Booking: booking, Version: 3, StartVersion: 2, ToldCustomer: customer, ToldHost: host, Status: status,
		Resource: "room-7", Start: start, End: start.Add(time.Hour), Zone: "Europe/Berlin", Seats: 2,
	})
}

// The table of design §3.
func TestOwed(t *testing.T) {
	const confirmed, cancelled = event.StatusConfirmed, event.StatusCancelled
	tests := map[string]struct {
		event event.Event
		want  []string
	}{
		"booked":                         {told(event.Confirmed, confirmed, 3, 3), []string{"email-confirm-" + booking + "-v3", "email-confirm-" + booking + "-v3-host"}},
		"booked, no host":                {told(event.Confirmed, confirmed, 3, 0), []string{"email-confirm-" + booking + "-v3"}},
		"moved":                          {told(event.Rescheduled, confirmed, 3, 3), []string{"email-move-" + booking + "-v3", "email-move-" + booking + "-v3-host"}},
		"cancelled":                      {told(event.Cancelled, cancelled, 3, 3), []string{"email-cancel-" + booking + "-v3", "email-cancel-" + booking + "-v3-host"}},
		"seats":                          {told(event.Changed, confirmed, 3, 3), []string{"email-confirm-" + booking + "-v3", "email-confirm-" + booking + "-v3-host"}},
		"address corrected":              {told(event.Changed, confirmed, 3, 2), []string{"email-confirm-" + booking + "-v3"}},
		"address corrected when gone":    {told(event.Changed, cancelled, 3, 2), []string{"email-cancel-" + booking + "-v3"}},
		"note, locale or name":           {told(event.Changed, confirmed, 2, 2), nil},
		"host only":                      {told(event.Changed, confirmed, 2, 3), []string{"email-confirm-" + booking + "-v3-host"}},
		"erased":                         {told(event.Erased, confirmed, 2, 2), nil},
		"erased, whatever the facts say": {told(event.Erased, confirmed, 3, 3), nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var keys []string
			for _, m := range plan.Owed(tt.event) {
				keys = append(keys, m.Key)
				if err := id.Check(m.Key); err != nil {
					t.Error(err)
				}
			}
			if !slices.Equal(keys, tt.want) {
				t.Errorf("owed %q, want %q", keys, tt.want)
			}
		})
	}
}

func TestOwedMessage(t *testing.T) {
	owed := plan.Owed(told(event.Rescheduled, event.StatusConfirmed, 3, 3))
	want := sendlog.Message{
		Key: "email-move-" + booking + "-v3", Channel: sendlog.Email, Booking: booking, Kind: sendlog.Move, Version: 3, StartVersion: 2,
		Role: sendlog.Customer, Urgency: sendlog.UrgentCustomer, DueAt: changedAt,
		Facts: sendlog.Facts{Status: "confirmed", Resource: "room-7", Start: start, End: start.Add(time.Hour), Zone: "Europe/Berlin", Seats: 2},
	}
	if !same(owed[0], want) {
		t.Errorf("customer's mail = %+v\nwant %+v", owed[0], want)
	}
	want.Key, want.Role, want.Urgency = want.Key+"-host", sendlog.Host, sendlog.UrgentHost
	if !same(owed[1], want) {
		t.Errorf("host's mail = %+v\nwant %+v", owed[1], want)
	}
}

// same compares two messages about booked times.
func same(a, b sendlog.Message) bool {
	same := a.Facts.Status == b.Facts.Status && a.Facts.Resource == b.Facts.Resource && a.Facts.Zone == b.Facts.Zone &&
		a.Facts.Seats == b.Facts.Seats && a.Facts.Start.Equal(b.Facts.Start) && a.Facts.End.Equal(b.Facts.End) && a.DueAt.Equal(b.DueAt)
	return same && a.Key == b.Key && a.Channel == b.Channel && a.Booking == b.Booking && a.Kind == b.Kind && a.Version == b.Version &&
		a.StartVersion == b.StartVersion && a.Role == b.Role && a.Urgency == b.Urgency && a.State == b.State
}

func TestUnreadableEventIsHeld(t *testing.T) {
	long := bytes.Repeat([]byte{'x'}, 70_000)
	tests := map[string]struct {
		messageID string
		body      []byte
		key       string
		kept      int
	}{
		"by its message id":         {"booking-" + booking + "-v3", []byte(`{"type":"booking.v2.split"}`), "event-booking-" + booking + "-v3", 27},
		"without a message id":      {"", []byte("x"), "event-sha256-2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", 1},
		"with an illegal one":       {"a.b", []byte("x"), "event-sha256-2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", 1},
		"with one that is too long": {strings.Repeat("a", 199), []byte("x"), "event-sha256-2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", 1},
		"empty":                     {"m1", nil, "event-m1", 0},
		"too long to keep":          {"m1", long, "event-m1", 65_536},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			owed, told := plan.Encoded{MessageID: tt.messageID, At: changedAt, Body: tt.body}.Owed()
			if len(owed) != 1 || len(told) != 0 {
				t.Fatalf("owed %+v, told %+v", owed, told)
			}
			m := owed[0]
			if m.Key != tt.key || m.State != sendlog.Held || m.Channel != sendlog.Event || m.Kind != sendlog.Unreadable || !m.DueAt.Equal(changedAt) {
				t.Errorf("message = %+v, want key %s, held", m, tt.key)
			}
			if !strings.HasPrefix(m.Reason, event.ErrUnreadable.Error()) || strings.Contains(m.Reason, "split") {
				t.Errorf("reason = %q", m.Reason)
			}
			if len(m.Facts.Event) != tt.kept {
				t.Errorf("%d bytes are kept, want %d", len(m.Facts.Event), tt.kept)
			}
			if err := id.Check(m.Key); err != nil {
				t.Error(err)
			}
		})
	}
}
