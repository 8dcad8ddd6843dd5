package sendlog_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

func TestPlanTwiceIsNothing(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	a, b := f.book(), f.book()
	first, second := mail(a, sendlog.Confirm, 1), mail(b, sendlog.Confirm, 1)
	if got := f.plan(first); !slices.Equal(got, []string{first.Key}) {
		t.Fatalf("planned %q", got)
	}
	select {
	case <-f.Woken():
	default:
		t.Error("planning woke nobody")
	}
	changed := first
	changed.Facts.Seats = 9
	if got := f.plan(second, changed, second); !slices.Equal(got, []string{second.Key}) {
		t.Fatalf("planned %q, want only what was new", got)
	}
	if n := f.number(`select (payload->>'seats')::bigint from notifier.send_log where key = $1`, first.Key); n != 1 {
		t.Errorf("planning again changed a row's facts: %d seats", n)
	}
	if got := f.plan(first, second); len(got) != 0 {
		t.Errorf("planned %q again", got)
	}
}

func TestPlanKeepsEveryColumn(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	m := mail(f.book(), sendlog.Confirm, 7)
	m.StartVersion, m.Role, m.Copy, m.Urgency = 6, sendlog.Host, 2, sendlog.UrgentHost
	m.Facts.Start = time.Date(2026, 12, 3, 13, 0, 0, 123456000, time.UTC)
	f.plan(m)
	f.exec(`update booking.bookings set version = 7, told_host = 7`)
	h := f.one()
	if !reflect.DeepEqual(h.Facts, m.Facts) {
		t.Errorf("facts %+v, want %+v", h.Facts, m.Facts)
	}
	want := m
	want.State, want.DueAt = sendlog.Handed, h.DueAt
	if !reflect.DeepEqual(h.Message, want) {
		t.Errorf("handed %+v, want %+v", h.Message, want)
	}
	if h.To() != "host@rooms.example" || h.ResourceName != "Room 7" || h.Name != "Ada Lovelace" || h.N != 1 || h.CreatedAt.IsZero() || h.HandedAt.IsZero() {
		t.Errorf("hand %+v", h)
	}
}

func TestPlanHeld(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	f.plan(sendlog.Message{
		Key: "event-booking-1-v1", Channel: sendlog.Event, Kind: sendlog.Unreadable, State: sendlog.Held, Reason: "unknown type", DueAt: time.Now(),
		Facts: sendlog.Facts{Event: []byte("\x00\xff")},
	})
	f.want("event-booking-1-v1", "held: unknown type")
	if len(f.hand(4)) != 0 {
		t.Error("handed what is no mail")
	}
}

func TestPlanLateGoesLast(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	late, fresh := mail(f.book(), sendlog.Confirm, 1), mail(f.book(), sendlog.Confirm, 1)
	late.DueAt = time.Now().Add(-11 * time.Minute)
	fresh.DueAt = time.Now().Add(-9 * time.Minute)
	f.plan(late, fresh)
	for key, want := range map[string]int64{late.Key: sendlog.UrgentBacklog, fresh.Key: sendlog.UrgentCustomer} {
		if got := f.number(`select urgency from notifier.send_log where key = $1`, key); got != want {
			t.Errorf("%s has urgency %d, want %d", key, got, want)
		}
	}
}

func TestPlanIntoQuietTime(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	booking := f.book()
	f.plan(mail(booking, sendlog.Confirm, 1))
	f.one()
	f.expire()
	if marks := f.sweep(); marks != 1 {
		t.Fatalf("swept %d", marks)
	}
	f.cancel(booking)
	host := mail(booking, sendlog.Cancel, 2)
	host.Key, host.Role = host.Key+"-host", sendlog.Host
	f.plan(mail(booking, sendlog.Cancel, 2), host)
	if got := f.seconds("due_at", mail(booking, sendlog.Cancel, 2).Key); got < 895 || got > 900 {
		t.Errorf("the customer's mail is due in %d s, want at the end of the quiet time", got)
	}
	if got := f.seconds("due_at", host.Key); got > 0 {
		t.Errorf("the host's mail is due in %d s: the quiet time is the customer's", got)
	}
}

func TestTimesContradict(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*sendlog.Times){
		"dot + answer <= cap":           func(t *sendlog.Times) { t.Answer += time.Second },
		"cap < quiet":                   func(t *sendlog.Times) { t.Quiet = t.Cap },
		"two renewals fit into a lease": func(t *sendlog.Times) { t.Renew = t.Lease / 2 },
		"lease <= cap":                  func(t *sendlog.Times) { t.Lease = t.Cap + 1 },
		"the waits after a 4xx rise":    func(t *sendlog.Times) { t.Steps = nil },
		"every limit is positive":       func(t *sendlog.Times) { t.MaxUnknowns = 0 },
		"overdue <= late <":             func(t *sendlog.Times) { t.Late = 48 * time.Hour },
		"every time is positive":        func(t *sendlog.Times) { t.Sweep = 0 },
		"base <= max":                   func(t *sendlog.Times) { t.Base = time.Hour },
	}
	for rule, spoil := range tests {
		times := sendlog.DefaultTimes()
		if err := times.Check(); err != nil {
			t.Fatal(err)
		}
		spoil(&times)
		if err := times.Check(); err == nil || !strings.Contains(err.Error(), rule) {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

// The times are no settings: the promise stands on them.
func TestReadTimes(t *testing.T) {
	t.Parallel()
	env := config.New("notifier", func(name string) string {
		return map[string]string{"CATCH_UP_LIMIT": "48h"}[name]
	})
	want := sendlog.DefaultTimes()
	want.CatchUp = 48 * time.Hour
	if got := sendlog.ReadTimes(env); !reflect.DeepEqual(got, want) || env.Err() != nil {
		t.Errorf("%+v: %v", got, env.Err())
	}
}
