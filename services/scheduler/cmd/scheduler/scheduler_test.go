package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/seed"
)

// world is a database and a NATS server with the topology, before any scheduler runs.
type world struct {
	t    *testing.T
	db   *dbtest.DB
	bus  *bustest.Server
	js   jetstream.JetStream // may do everything
	seed *seed.Seed
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, db: dbtest.New(t), bus: bustest.New(t)}
	w.js = w.bus.JetStream(bustest.Admin)
	w.topology()
	w.seed = seed.New(t, w.db.Admin)
	w.seed.Resource(seed.Resource{ID: "room-7"})
	return w
}

func (w *world) topology() {
	w.t.Helper()
	if _, err := topology.Apply(w.t.Context(), w.js, topology.Streams(topology.Sizes{Replicas: 1}), topology.Consumers()); err != nil {
		w.t.Fatal(err)
	}
}

// scheduler runs the service until the returned function is called, which waits for its end.
func (w *world) scheduler(pairs ...string) (stop func()) {
	w.t.Helper()
	env := map[string]string{
		"DATABASE_URL": w.db.URL("slotwise_scheduler"), "NATS_URL": w.bus.URL(), "NATS_NKEY_FILE": w.bus.SeedFile("scheduler"),
		"ADMIN_ADDR": freeAddr(w.t), "LOG_LEVEL": "error",
	}
	for i := 0; i < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, nil, func(name string) string { return env[name] }, io.Discard) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("run = %v", err)
		}
	}
	w.t.Cleanup(stop)
	return stop
}

// publish does what the relay does with the booking's last event.
func (w *world) publish(b seed.Booking) {
	w.t.Helper()
	body, err := b.Event.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.js.Publish(w.t.Context(), b.Event.NATSSubject(), body, jetstream.WithMsgID(b.Event.ID)); err != nil {
		w.t.Fatal(err)
	}
}

// schedule returns the schedule of the booking's start, nil when there is none.
func (w *world) schedule(b seed.Booking) *jetstream.RawStreamMsg {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), topology.Reminders)
	if err != nil {
		return nil
	}
	m, err := stream.GetLastMsgForSubject(w.t.Context(), event.Reminder{Booking: b.ID, StartVersion: b.StartVersion}.ScheduleSubject())
	if err != nil {
		return nil
	}
	return m
}

func (w *world) eventually(what string, check func() bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); !check(); time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // polls a condition
		if time.Now().After(end) {
			w.t.Fatalf("%s: not within 20 s", what)
		}
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Booked 36 h ahead: exactly one schedule, at the start less a day, to the nanosecond that
// PostgreSQL keeps; a move leaves it and sets another.
func TestB99B101EachStartHasOneSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.seed.Book(seed.Booking{Resource: "room-7", Lead: 24 * time.Hour, Start: time.Now().Add(36 * time.Hour).Truncate(time.Microsecond)})
	w.publish(b)
	w.scheduler()
	w.eventually("schedule of v1", func() bool { return w.schedule(b) != nil })
	m := w.schedule(b)
	if got, want := m.Header.Get("Nats-Schedule"), "@at "+b.RemindAt.UTC().Format(time.RFC3339Nano); got != want {
		t.Errorf("schedule = %q, want %q", got, want)
	}
	if got, want := m.Header.Get("Nats-Schedule-Target"), "reminder.due."+b.ID+".1"; got != want {
		t.Errorf("target = %q, want %q", got, want)
	}
	moved := w.seed.Move(b, b.Start.Add(24*time.Hour))
	w.publish(moved)
	w.eventually("schedule of v2", func() bool { return w.schedule(moved) != nil })
	if again := w.schedule(b); again == nil || again.Sequence != m.Sequence {
		t.Error("the schedule of v1 was touched")
	}
}

// Booked after the reminder's moment: none, by the event or by the reconcile.
func TestB102NoScheduleWithoutALead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	late := w.seed.Book(seed.Booking{Resource: "room-7", Start: time.Now().Add(3 * time.Hour)})
	sign := w.seed.Book(seed.Booking{Resource: "room-7", Lead: time.Hour, Start: time.Now().Add(3 * time.Hour)})
	w.publish(late)
	w.publish(sign)
	w.scheduler()
	w.eventually("the booking behind it", func() bool { return w.schedule(sign) != nil })
	if w.schedule(late) != nil {
		t.Error("a booking that owes no reminder has a schedule")
	}
}

// A deleted schedule is made again by the reconcile; one that exists is left alone.
func TestReconcileRestoresWhatIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kept := w.seed.Book(seed.Booking{Resource: "room-7", Lead: time.Hour})
	lost := w.seed.Book(seed.Booking{Resource: "room-7", Lead: time.Hour})
	cancelled := w.seed.Cancel(w.seed.Book(seed.Booking{Resource: "room-7", Lead: time.Hour}))
	stop := w.scheduler()
	w.eventually("both schedules", func() bool { return w.schedule(kept) != nil && w.schedule(lost) != nil })
	stop()
	first := w.schedule(kept)
	stream, err := w.js.Stream(t.Context(), topology.Reminders)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), w.schedule(lost).Sequence); err != nil {
		t.Fatal(err)
	}
	w.scheduler()
	w.eventually("the lost schedule", func() bool { return w.schedule(lost) != nil })
	if again := w.schedule(kept); again.Sequence != first.Sequence {
		t.Error("the schedule that existed was written again")
	}
	if w.schedule(cancelled) != nil {
		t.Error("a cancelled booking has a schedule")
	}
}

// A pass over more bookings than one question holds, with and without schedules.
func TestReconcilePages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 1203
	_, err := w.db.Admin.Exec(t.Context(), `
		insert into booking.bookings (id, resource, status, starts_at, ends_at, seats, version, start_version, remind_at, told_customer, told_host, created_at, changed_at)
		select gen_random_uuid(), 'room-7', 'confirmed', now() + interval '2 days', now() + interval '49 hours', 1, 1, 1,
		       now() + interval '1 day' + (i % 7) * interval '1 minute', 1, 0, now(), now()
		from generate_series(1, $1) i`, n)
	if err != nil {
		t.Fatal(err)
	}
	w.scheduler("RECONCILE_EVERY", "1s")
	w.eventually("all schedules", func() bool { return w.bus.Messages(t.Context(), topology.Reminders) == n })
	stream, err := w.js.Stream(t.Context(), topology.Reminders)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeKeep(700)); err != nil {
		t.Fatal(err)
	}
	w.eventually("those that were purged", func() bool { return w.bus.Messages(t.Context(), topology.Reminders) == n })
}

// Two schedulers, one behind a wiped store: one schedule a reminder.
func TestB34B36TwoSchedulersAndAWipedStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.seed.Book(seed.Booking{Resource: "room-7", Lead: time.Hour})
	w.publish(b)
	w.scheduler("RECONCILE_EVERY", "1s")
	w.scheduler("RECONCILE_EVERY", "1s")
	w.eventually("the schedule", func() bool { return w.schedule(b) != nil })
	w.bus.Wipe()
	w.eventually("NATS again", func() bool { _, err := w.js.AccountInfo(t.Context()); return err == nil })
	w.topology()
	w.eventually("the schedule after the wipe", func() bool { return w.schedule(b) != nil })
	if n := w.bus.Messages(t.Context(), topology.Reminders); n != 1 {
		t.Errorf("%d messages in REMINDERS, want 1", n)
	}
}

func TestMistakesAtOnce(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), nil, func(name string) string {
		return map[string]string{"RECONCILE_EVERY": "soon", "NATS_URL": "http://x"}[name]
	}, &out)
	for _, want := range []string{"DATABASE_URL", "RECONCILE_EVERY", "NATS_URL"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run = %v, want a complaint about %s", err, want)
		}
	}
}
