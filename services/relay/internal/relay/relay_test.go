package relay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/outbox"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/proxy"
)

// Issue 3 §4.1: the poll picks up what no doorbell told.
func TestDoorbellLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.start(nil)
	r.write(event(1, 1))
	r.eventuallyCount(publishedRows, 1)
	if got := r.stored(); !slices.Equal(got, []string{event(1, 1).MessageID}) {
		t.Errorf("stored %v", got)
	}
}

func TestDoorbellWakes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.settings()
	s.Times.Poll = 4 * time.Second
	relay, _ := r.relay(s, nil)
	rung, deaf, err := bus.Listen(r.bus.Connect("relay"), topology.Doorbell)
	if err != nil {
		t.Fatal(err)
	}
	defer deaf()
	r.run(relay, rung)
	r.eventually("a first pass", func() bool { return !relay.State().LastPass.IsZero() })

	ringer := r.bus.Connect("booking")
	began := time.Now()
	for n := range 5 {
		r.write(event(n+1, 1))
		if err := ringer.Publish(topology.Doorbell, nil); err != nil {
			t.Fatal(err)
		}
		r.eventuallyCount(publishedRows, n+1)
	}
	if took := time.Since(began); took > s.Times.Poll {
		t.Errorf("five events took %s: the doorbell wakes nobody", took)
	}
}

func TestMessageIsTheRow(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.start(nil)
	e := event(1, 1)
	e.Headers["Nats-Msg-Id"] = "another"
	r.write(e)
	r.eventuallyCount(publishedRows, 1)
	stream, err := r.bus.JetStream(bustest.Admin).Stream(t.Context(), topology.Bookings)
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if m.Subject != e.Subject || string(m.Data) != string(e.Payload) || m.Header.Get("traceparent") != e.Headers["traceparent"] {
		t.Errorf("stored %s %s %v", m.Subject, m.Data, m.Header)
	}
	if got := m.Header.Values(jetstream.MsgIDHeader); !slices.Equal(got, []string{e.MessageID}) {
		t.Errorf("message id %v", got)
	}
}

// B1: an id that was drawn earlier and is committed later is not skipped.
func TestB1LateCommit(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	slow, err := r.db.Pool("slotwise_booking").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // after a commit it is none
	batch := &pgx.Batch{}
	r.table.Queue(batch, event(1, 1))
	if err := slow.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatal(err)
	}
	r.start(nil)
	r.write(event(2, 1))
	r.eventuallyCount(publishedRows, 1)
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.eventuallyCount(publishedRows, 2)
}

// B2: two relays with small claims and a slow way to NATS, versions written while they work.
func TestB2TwoRelaysKeepTheOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	slow := proxy.New(t, r.bus.URL())
	slow.Delay(20 * time.Millisecond)
	s := r.settings()
	s.Batch, s.Lanes = 10, 2
	for _, addr := range []string{"", slow.Addr()} {
		relay, _ := r.relay(s, r.dial(addr))
		r.run(relay, nil)
	}
	const bookings, versions = 30, 5
	for v := range versions {
		for n := range bookings {
			r.write(event(n+1, v+1))
		}
	}
	r.eventuallyCount(publishedRows, bookings*versions)
	stored := r.stored()
	r.inOrder(stored)
	if len(stored) != bookings*versions {
		t.Errorf("%d messages", len(stored))
	}
}

// B3: an older row of a key that is not committed yet is invisible, so nothing here could keep
// a newer one back. The lock on what the key names does: it forbids the newer one to exist.
func TestB3TheWritersLockForbidsAnInvisibleOlderRow(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.start(nil)
	write := func(tx pgx.Tx, version int) {
		t.Helper()
		batch := &pgx.Batch{}
		batch.Queue(`select from booking.resources where id = 'room-7' for no key update`) // as the booking's row
		r.table.Queue(batch, event(1, version))
		if err := tx.SendBatch(t.Context(), batch).Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.db.Admin.Exec(t.Context(), `insert into booking.resources (id, name, zone, capacity, slot_minutes) values ('room-7', 'Room', 'UTC', 1, 30)`); err != nil {
		t.Fatal(err)
	}
	slow, err := r.db.Pool("slotwise_booking").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write(slow, 1)
	fast := make(chan error, 1)
	go func() {
		fast <- pgx.BeginFunc(t.Context(), r.db.Pool("slotwise_booking"), func(tx pgx.Tx) error { write(tx, 2); return nil })
	}()
	r.eventually("the second writer waits", func() bool {
		var waits bool
		if err := r.db.Admin.QueryRow(t.Context(), `select exists (select from pg_locks l join pg_database d on d.oid = l.database or l.database is null
			join pg_stat_activity a on a.pid = l.pid where not l.granted and a.datname = current_database())`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		return waits
	})
	if n := r.count(publishedRows); n != 0 {
		t.Errorf("%d rows are published", n)
	}
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-fast; err != nil {
		t.Fatal(err)
	}
	r.eventuallyCount(publishedRows, 2)
	if got, want := r.stored(), []string{event(1, 1).MessageID, event(1, 2).MessageID}; !slices.Equal(got, want) {
		t.Errorf("stored %v", got)
	}
}

// Issue 3 §4.12: what is rolled back publishes nothing.
func TestRolledBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	relay, _ := r.start(nil)
	err := pgx.BeginFunc(t.Context(), r.db.Pool("slotwise_booking"), func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		r.table.Queue(batch, event(1, 1))
		if err := tx.SendBatch(t.Context(), batch).Close(); err != nil {
			return err
		}
		r.eventually("a pass meanwhile", passes(relay))
		return context.Canceled
	})
	if err == nil {
		t.Fatal("committed")
	}
	r.write(event(2, 1))
	r.eventuallyCount(publishedRows, 1)
	if got := r.stored(); !slices.Equal(got, []string{event(2, 1).MessageID}) {
		t.Errorf("stored %v", got)
	}
}

// passes reports whether a whole pass has gone by since it was made.
func passes(relay *Relay) func() bool {
	began, seen := time.Now(), 0
	return func() bool {
		if last := relay.State().LastPass; last.After(began) {
			began, seen = last, seen+1
		}
		return seen == 2
	}
}

// B12: with 20 ms to the broker and back, 10 000 events wait for no answer one by one.
func TestB12SlowBroker(t *testing.T) {
	t.Parallel()
	for _, batches := range []bool{true, false} {
		t.Run(fmt.Sprintf("batches=%t", batches), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = batches })
			slow := proxy.New(t, r.bus.URL())
			slow.Delay(10 * time.Millisecond)
			const events = 3_000 // the case has 10 000; the rate is the same
			r.fill(events)
			relay, _ := r.relay(r.settings(), r.dial(slow.Addr()))
			began := time.Now()
			r.run(relay, nil)
			r.eventuallyCount(publishedRows, events)
			rate := events / time.Since(began).Seconds()
			t.Logf("%.0f events a second", rate)
			if rate < 150 { // one by one: 50
				t.Errorf("%.0f events a second", rate)
			}
			if n := r.bus.Messages(t.Context(), topology.Bookings); n != events {
				t.Errorf("%d messages", n)
			}
		})
	}
}

func TestLanesShareABacklog(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var events []outbox.Event
	for v := range 3 {
		for n := range 1000 {
			events = append(events, event(n+1, v+1))
		}
	}
	r.write(events...)
	relay, _ := r.start(func(s *Settings) { s.Lanes, s.Batch = 3, 60 })
	r.eventuallyCount(publishedRows, len(events))
	for i, l := range relay.lanes {
		if l.nc == nil {
			t.Errorf("lane %d did nothing", i)
		}
	}
	stored := r.stored()
	r.inOrder(stored)
	if len(stored) != len(events) {
		t.Errorf("%d messages", len(stored))
	}
}

// B55: nothing needs a consumer to be stored.
func TestB55NoConsumerYet(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.start(nil)
	r.fill(60)
	r.eventuallyCount(publishedRows, 60)
	if n := r.bus.Messages(t.Context(), topology.Bookings); n != 60 {
		t.Errorf("%d messages", n)
	}
}

func TestStopFinishesTheClaim(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	slow := proxy.New(t, r.bus.URL())
	slow.Delay(200 * time.Millisecond)
	relay, _ := r.relay(r.settings(), r.dial(slow.Addr()))
	stop := r.run(relay, nil)
	r.eventually("a connection", func() bool { _, n := slow.Conns(); return n > 0 })
	r.write(event(1, 1))
	r.eventually("the message on its way", func() bool { return r.bus.Messages(t.Context(), topology.Bookings) == 1 })
	stop()
	if n := r.count(publishedRows); n != 1 {
		t.Errorf("%d rows are marked", n)
	}
}

func TestSettingsThatContradictEachOther(t *testing.T) {
	for name, change := range map[string]func(*Times){
		"claim outlives its transaction": func(t *Times) { t.Claim = t.Tx },
		"pause looks stuck":              func(t *Times) { t.Stuck = t.Pause.Max },
		"transaction too long":           func(t *Times) { t.Tx *= 2 },
		"rows do not wait":               func(t *Times) { t.Again.Base = 0 },
	} {
		times := DefaultTimes(5 * time.Second)
		if err := times.check(); err != nil {
			t.Fatal(err)
		}
		change(&times)
		if times.check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// B145: a relay that finishes no pass is dead, whatever PostgreSQL says of itself.
func TestB145Live(t *testing.T) {
	relay := &Relay{times: DefaultTimes(5 * time.Second)}
	if err := relay.Live(t.Context()); err != nil {
		t.Errorf("before it runs: %v", err)
	}
	relay.state.LastPass = time.Now().Add(-time.Minute)
	if err := relay.Live(t.Context()); err != nil {
		t.Errorf("after a minute: %v", err)
	}
	relay.state.LastPass = time.Now().Add(-121 * time.Second)
	if err := relay.Live(t.Context()); err == nil || !strings.Contains(err.Error(), "2m1s") {
		t.Errorf("after two minutes: %v", err)
	}
}
