package sendlog_test

import (
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

func TestBacklog(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	f.hostless()
	due := func(ago time.Duration) sendlog.Message {
		m := mail(f.book(), sendlog.Confirm, 1)
		m.DueAt = time.Now().Add(-ago)
		return m
	}
	for range 3 {
		f.plan(due(0))
	}
	hands := f.hand(3)
	f.write(hands[0], sendlog.Rejected, "550")
	f.write(hands[1], sendlog.Unsendable, "x")
	f.write(hands[2], sendlog.NoAnswer, "x")
	behind := due(0) // a quiet time
	behind.Key, behind.Booking = behind.Key+"-c2", hands[2].Booking
	f.plan(behind, due(-time.Hour), due(4*time.Minute), due(6*time.Minute), due(11*time.Minute))
	f.exec(`update notifier.send_log set due_at = now() - interval '6 minutes' where key = $1`, behind.Key)
	f.hand(1) // one of the fresh ones
	b, err := f.Backlog(f.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if want := map[sendlog.State]int64{"planned": 4, "unknown": 1, "handed": 1, "held": 1, "refused": 1}; !maps.Equal(b.States, want) {
		t.Errorf("states %v, want %v", b.States, want)
	}
	if b.Overdue != 2 || b.OverdueLate != 1 {
		t.Errorf("%d overdue, %d late, want 2 and 1", b.Overdue, b.OverdueLate)
	}
	f.exec(`update notifier.switches set paused = true`)
	if b, err = f.Backlog(f.ctx()); err != nil || b.Overdue != 1 { // what is in hand is
		t.Errorf("%d overdue behind the switch: %v", b.Overdue, err)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	m := mail(f.book(), sendlog.Confirm, 1)
	m.DueAt = time.Now().Add(-time.Hour)
	f.plan(m)
	for paced, want := range map[bool]float64{false: 1, true: 0} {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(f.Metrics(func() bool { return paced }))
		families, err := registry.Gather()
		if err != nil || len(families) != 2 {
			t.Fatalf("%d families: %v", len(families), err)
		}
		if got := families[1].GetMetric()[0].GetGauge().GetValue(); families[1].GetName() != "slotwise_messages_overdue" || got != want {
			t.Errorf("paced %t: %v, want %v", paced, got, want)
		}
	}
	f.db.Pool("slotwise_notifier").Close()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(f.Metrics(func() bool { return false }))
	if families, err := registry.Gather(); err != nil || len(families) != 0 {
		t.Errorf("without PostgreSQL: %v, %v", families, err)
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	next := func(wantDue bool, low, high time.Duration) {
		t.Helper()
		due, wait, err := f.Next(f.ctx())
		if err != nil || due != wantDue || wait < low || wait > high {
			t.Errorf("due %t, wait %s, want %t, %s to %s: %v", due, wait, wantDue, low, high, err)
		}
	}
	next(false, 5*time.Second, 5*time.Second)
	m := mail(f.book(), sendlog.Confirm, 1)
	m.DueAt = time.Now().Add(3 * time.Second)
	f.plan(m)
	next(false, time.Second, 3*time.Second)
	f.plan(mail(f.book(), sendlog.Confirm, 1))
	next(true, 0, 3*time.Second)
	f.exec(`update notifier.switches set paused = true where name = 'mail'`)
	next(false, 0, 3*time.Second)
}

func TestForget(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	plan := func(age, end string, state sendlog.State) string {
		m := mail(f.book(), sendlog.Confirm, 1)
		f.plan(m)
		f.exec(`insert into notifier.hands (key, token, n, handed_at) values ($1, gen_random_uuid(), 1, now())`, m.Key)
		f.exec(`update notifier.send_log set created_at = now() - $2::interval, state = $3, reason = 'x', accepted_at = now() where key = $1`, m.Key, age, state)
		f.exec(`update booking.bookings set starts_at = now() + $2::interval - interval '1 hour', ends_at = now() + $2::interval where id = $1`, m.Booking, end)
		return m.Key
	}
	plan("91 days", "-31 days", sendlog.Sent)
	plan("91 days", "-31 days", sendlog.Skipped)
	plan("91 days", "-31 days", sendlog.Refused)
	keep := map[string]string{
		"young":         plan("89 days", "-31 days", sendlog.Sent),
		"booking ahead": plan("91 days", "-29 days", sendlog.Sent),
		"planned":       plan("91 days", "-31 days", sendlog.Planned),
		"held":          plan("91 days", "-31 days", sendlog.Held),
	}
	if n, err := f.Forget(f.ctx()); n != 3 || err != nil {
		t.Errorf("%d forgotten: %v", n, err)
	}
	for name, key := range keep {
		if f.number(`select count(*) from notifier.send_log join notifier.hands using (key) where key = $1`, key) != 1 {
			t.Errorf("%s: forgotten", name)
		}
	}
	if n := f.number(`select count(*) from notifier.hands`); n != 4 {
		t.Errorf("%d hands are left", n)
	}
}
