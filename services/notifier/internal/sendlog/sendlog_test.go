package sendlog_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/seed"
)

// fixture is a database with one resource, and a log on it.
type fixture struct {
	*sendlog.Log
	t        testing.TB
	db       *dbtest.DB
	seed     *seed.Seed
	bookings map[string]seed.Booking // as they stand
}

func open(tb testing.TB, times sendlog.Times) fixture {
	tb.Helper()
	if err := times.Check(); err != nil {
		tb.Fatal(err)
	}
	db := dbtest.New(tb)
	f := fixture{sendlog.New(db.Pool("slotwise_notifier"), times), tb, db, seed.New(tb, db.Admin), map[string]seed.Booking{}}
	f.seed.Resource(seed.Resource{ID: "room-7", Name: "Room 7", Host: "host@rooms.example"})
	return f
}

func (f fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.db.Admin.Exec(f.ctx(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}

func (f fixture) ctx() context.Context { return f.t.Context() }

// hostless removes the host: nobody is told what became of customers' mails.
func (f fixture) hostless() {
	f.t.Helper()
	f.exec(`update booking.resources set host_address = null`)
}

// book makes a confirmed booking of version 1, two days ahead, and returns its id.
func (f fixture) book() string {
	f.t.Helper()
	b := f.seed.Book(seed.Booking{Resource: "room-7"})
	f.bookings[b.ID] = b
	return b.ID
}

func (f fixture) move(booking string) {
	f.t.Helper()
	b := f.bookings[booking]
	f.bookings[booking] = f.seed.Move(b, b.Start.Add(time.Hour))
}

func (f fixture) cancel(booking string) {
	f.t.Helper()
	f.bookings[booking] = f.seed.Cancel(f.bookings[booking])
}

// mail is the customer's mail of kind about a version of booking, due now.
func mail(booking string, kind sendlog.Kind, version int64) sendlog.Message {
	m := sendlog.Message{
		Key:     id.Mail{Kind: string(kind), Booking: booking, Version: version}.String(),
		Channel: sendlog.Email, Booking: booking, Kind: kind, Version: version, StartVersion: version, Role: sendlog.Customer,
		DueAt: time.Now().Add(-time.Second),
		Facts: sendlog.Facts{Status: "confirmed", Resource: "room-7", Zone: "Europe/Berlin", Seats: 1},
	}
	if kind == sendlog.Reminder {
		m.Key, m.Urgency = id.Reminder(booking, version), sendlog.UrgentReminder
	}
	return m
}

func (f fixture) plan(messages ...sendlog.Message) []string {
	f.t.Helper()
	keys, err := f.Plan(f.ctx(), messages)
	if err != nil {
		f.t.Fatal(err)
	}
	return keys
}

func (f fixture) hand(n int) []sendlog.Hand {
	f.t.Helper()
	hands, _, err := f.Hand(f.ctx(), n, n)
	if err != nil {
		f.t.Fatal(err)
	}
	return hands
}

// one hands exactly one mail.
func (f fixture) one() sendlog.Hand {
	f.t.Helper()
	hands := f.hand(4)
	if len(hands) != 1 {
		f.t.Fatalf("%d mails in hand, want 1", len(hands))
	}
	return hands[0]
}

func (f fixture) write(h sendlog.Hand, outcome sendlog.Outcome, answer string) (marks int) {
	f.t.Helper()
	marks, err := f.Write(f.ctx(), []sendlog.Result{{Key: h.Key, Token: h.Token, Outcome: outcome, Answer: answer}})
	if err != nil {
		f.t.Fatal(err)
	}
	return marks
}

func (f fixture) sweep() int {
	f.t.Helper()
	marks, err := f.Sweep(f.ctx())
	if err != nil {
		f.t.Fatal(err)
	}
	return marks
}

// expire ends every lease.
func (f fixture) expire() {
	f.t.Helper()
	f.exec(`update notifier.send_log set lease_until = now() - interval '1 second' where state = 'handed'`)
}

// dueNow makes everything that waits due.
func (f fixture) dueNow() {
	f.t.Helper()
	f.exec(`update notifier.send_log set due_at = now() - interval '1 second' where state in ('planned', 'unknown')`)
}

// passQuiet ends all quiet times.
func (f fixture) passQuiet() {
	f.t.Helper()
	f.exec(`update notifier.send_log set quiet_until = now() - interval '1 second' where quiet_until is not null`)
	f.dueNow()
}

// state is where a row stands, as "state" or "state: reason".
func (f fixture) state(key string) string {
	f.t.Helper()
	var state string
	err := f.db.Admin.QueryRow(f.ctx(), `select state || coalesce(': ' || reason, '') from notifier.send_log where key = $1`, key).Scan(&state)
	if err != nil {
		f.t.Fatal(err)
	}
	return state
}

func (f fixture) want(key, state string) {
	f.t.Helper()
	if got := f.state(key); got != state {
		f.t.Errorf("%s is %q, want %q", key, got, state)
	}
}

// number runs a query that returns one number.
func (f fixture) number(sql string, args ...any) (n int64) {
	f.t.Helper()
	if err := f.db.Admin.QueryRow(f.ctx(), sql, args...).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// seconds is a time of a row, in whole seconds from now.
func (f fixture) seconds(column, key string) int64 {
	f.t.Helper()
	return f.number(fmt.Sprintf(`select round(extract(epoch from %s - clock_timestamp())) from notifier.send_log where key = $1`, column), key)
}
