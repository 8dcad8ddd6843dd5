package plan_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/pkg/retry"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/services/notifier/internal/plan"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/seed"
	"go.uber.org/zap/zaptest"
)

// world is what the planner lives in: real servers, bookings, and no relay: tests publish.
type world struct {
	t        *testing.T
	db       *dbtest.DB
	bus      *bustest.Server
	bookings *seed.Seed
	log      *sendlog.Log
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db := dbtest.New(t)
	w := &world{
		t: t, db: db, bus: bustest.New(t), bookings: seed.New(t, db.Admin),
		log: sendlog.New(db.Pool("slotwise_notifier"), sendlog.DefaultTimes()),
	}
	w.bookings.Resource(seed.Resource{ID: "room-7", Host: "host@rooms.example"})
	w.apply(topology.Consumers())
	return w
}

func (w *world) apply(consumers []topology.Consumer) {
	w.t.Helper()
	_, err := topology.Apply(w.t.Context(), w.bus.JetStream("topology"), topology.Streams(topology.Sizes{Replicas: 1}), consumers)
	if err != nil {
		w.t.Fatal(err)
	}
}

// run runs loop until the test ends.
func (w *world) run(loop bus.Loop) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- loop.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("loop: %v", err)
		}
	})
}

func (w *world) planner(log plan.Log) bus.Loop {
	return plan.Planner{Log: log, Logger: zaptest.NewLogger(w.t)}.Loop(w.bus.JetStream("notifier"))
}

func (w *world) reminders() bus.Loop {
	return plan.Reminders{DB: w.db.Pool("slotwise_notifier"), Log: w.log, Logger: zaptest.NewLogger(w.t)}.Loop(w.bus.JetStream("notifier"))
}

// publish stores body under subject, as nobody but a test may.
func (w *world) publish(subject, messageID string, body []byte) {
	w.t.Helper()
	msg := nats.NewMsg(subject)
	msg.Data = body
	if messageID != "" {
		msg.Header.Set(nats.MsgIdHdr, messageID)
	}
	if _, err := w.bus.JetStream(bustest.Admin).PublishMsg(w.t.Context(), msg); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) publishEvent(e event.Event, messageID string) {
	w.t.Helper()
	body, err := e.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	w.publish(e.NATSSubject(), messageID, body)
}

// settled waits until the consumer has acknowledged or ended every message of the stream.
func (w *world) settled(stream, consumer string) {
	w.t.Helper()
	js := w.bus.JetStream(bustest.Admin)
	eventually(w.t, consumer+" has settled everything", func() bool {
		s, streamErr := js.Stream(w.t.Context(), stream)
		c, err := js.Consumer(w.t.Context(), stream, consumer)
		return streamErr == nil && err == nil && c.CachedInfo().AckFloor.Stream == s.CachedInfo().State.LastSeq
	})
}

type planned struct {
	Key     string
	State   string
	Reason  *string
	DueAt   time.Time
	Urgency int
}

func (w *world) planned() []planned {
	w.t.Helper()
	rows, _ := w.db.Admin.Query(w.t.Context(), `select key, state, reason, due_at, urgency from notifier.send_log order by key`)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[planned])
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

func (w *world) wantKeys(want ...string) {
	w.t.Helper()
	var keys []string
	for _, p := range w.planned() {
		keys = append(keys, p.Key)
	}
	slices.Sort(want)
	if !slices.Equal(keys, want) {
		w.t.Errorf("planned %q, want %q", keys, want)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
		if err := retry.Sleep(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

func mailKey(kind string, b seed.Booking, version int64, host bool) string {
	return id.Mail{Kind: kind, Booking: b.ID, Version: version, Host: host}.String()
}

// Issue 3 §4.2: an event processed twice plans one message (per role).
func TestEventProcessedTwicePlansOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.bookings.Book(seed.Booking{Resource: "room-7"})
	w.run(w.planner(w.log))
	w.publishEvent(b.Event, "first")
	w.publishEvent(b.Event, "second") // as after the dedupe window
	w.settled(topology.Bookings, topology.Planner)
	w.publishEvent(b.Event, "third")
	w.settled(topology.Bookings, topology.Planner)
	w.wantKeys(mailKey("confirm", b, 1, false), mailKey("confirm", b, 1, true))
	for _, p := range w.planned() {
		if p.State != "planned" || !p.DueAt.Equal(b.Event.Time) {
			t.Errorf("%+v, want planned and due at %s", p, b.Event.Time)
		}
	}
}

// Issue 3 §4.15: v1's event delivered after v2's was planned: v1's rows are planned as well.
func TestLateEventIsPlanned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.bookings.Book(seed.Booking{Resource: "room-7"})
	second := w.bookings.Move(first, first.Start.Add(time.Hour))
	w.run(w.planner(w.log))
	w.publishEvent(second.Event, second.Event.ID)
	w.settled(topology.Bookings, topology.Planner)
	w.publishEvent(first.Event, first.Event.ID)
	w.settled(topology.Bookings, topology.Planner)
	w.wantKeys(
		mailKey("move", first, 2, false), mailKey("move", first, 2, true),
		mailKey("confirm", first, 1, false), mailKey("confirm", first, 1, true))
}

func TestB15UnknownEventBeforeANormalOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.bookings.Book(seed.Booking{Resource: "room-7"})
	unknown := b.Event
	unknown.Type, unknown.ID = "booking.v1.moved", "booking-"+b.ID+"-v0"
	body, err := unknown.Encode()
	if err != nil {
		t.Fatal(err)
	}
	w.run(w.planner(w.log))
	w.publish(b.Event.NATSSubject(), unknown.ID, body)
	w.publish(b.Event.NATSSubject(), "", []byte("\x00\xff no JSON"))
	w.publishEvent(b.Event, b.Event.ID)
	w.settled(topology.Bookings, topology.Planner)
	held := 0
	for _, p := range w.planned() {
		if p.State == "held" {
			held++
			if p.Reason == nil || *p.Reason == "" {
				t.Errorf("%s is held without a reason", p.Key)
			}
		}
	}
	if held != 2 || len(w.planned()) != 4 {
		t.Errorf("%d held, want 2, and the two mails of the normal event: %+v", held, w.planned())
	}
	var kept []byte
	err = w.db.Admin.QueryRow(t.Context(), `select decode(payload ->> 'event', 'base64') from notifier.send_log where key = $1`, id.Unreadable(unknown.ID)).Scan(&kept)
	if err != nil || string(kept) != string(body) {
		t.Errorf("kept %q, %v, want the event's bytes", kept, err)
	}
}

// The planner acknowledges what is planned, not what is sent: mail servers that say "later"
// hold up nobody's event.
func TestB41WaitingMailsDoNotFillAckPending(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	small := topology.Consumers()
	for i, c := range small {
		small[i].Shape = func(config *jetstream.ConsumerConfig) { c.Shape(config); config.MaxAckPending = 10 }
	}
	w.apply(small)
	w.run(w.planner(w.log))
	for range 11 {
		b := w.bookings.Book(seed.Booking{Resource: "room-7"})
		w.publishEvent(b.Event, b.Event.ID)
	}
	w.settled(topology.Bookings, topology.Planner)
	if n := len(w.planned()); n != 22 {
		t.Errorf("%d rows, want 22", n)
	}
}

// away is a log whose database is away for a while.
type away struct {
	*sendlog.Log
	refused atomic.Int64
	back    atomic.Bool
}

func (a *away) PlanEvents(ctx context.Context, messages []sendlog.Message, events []sendlog.Announcement) ([]string, error) {
	if !a.back.Load() {
		a.refused.Add(1)
		return nil, errors.New("no connection")
	}
	return a.Log.PlanEvents(ctx, messages, events)
}

func TestB45NothingIsAcknowledgedUnplanned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := &away{Log: w.log}
	loop := w.planner(log)
	loop.Again = retry.Backoff{Base: 20 * time.Millisecond, Max: 100 * time.Millisecond}
	w.run(loop)
	b := w.bookings.Book(seed.Booking{Resource: "room-7"})
	w.publishEvent(b.Event, b.Event.ID)
	eventually(t, "it was tried many times", func() bool { return log.refused.Load() > 10 })
	w.wantKeys()
	log.back.Store(true)
	eventually(t, "it is planned", func() bool { return len(w.planned()) == 2 })
	w.settled(topology.Bookings, topology.Planner)
}
