package relay

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/outbox"
	"github.com/slotwise/slotwise/pkg/retry"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"
)

const role = "slotwise_relay"

// rig is a database, a nats-server and the outbox between them.
type rig struct {
	*testing.T
	db    *dbtest.DB
	bus   *bustest.Server
	table outbox.Table
}

// newRig declares BOOKINGS as released, but changed by shape.
func newRig(t *testing.T, shape func(*jetstream.StreamConfig), opts ...bustest.Option) *rig {
	t.Helper()
	table, err := outbox.In("booking.outbox_events")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, db: dbtest.New(t), bus: bustest.New(t, opts...), table: table}
	r.declare(shape)
	return r
}

// declare makes or changes the stream.
func (r *rig) declare(shape func(*jetstream.StreamConfig)) {
	r.Helper()
	config := jetstream.StreamConfig{Name: topology.Bookings}
	topology.Streams(topology.Sizes{Replicas: 1})[0].Shape(&config)
	if shape != nil {
		shape(&config)
	}
	if _, err := r.bus.JetStream(bustest.Admin).CreateOrUpdateStream(r.Context(), config); err != nil {
		r.Fatal(err)
	}
}

// noStream is the shape of an installation whose topology was never applied.
func (r *rig) noStream() {
	r.Helper()
	if err := r.bus.JetStream(bustest.Admin).DeleteStream(r.Context(), topology.Bookings); err != nil {
		r.Fatal(err)
	}
}

// booking is the id of booking n.
func booking(n int) string { return fmt.Sprintf("0192a4e0-0000-7000-8000-%012x", n) }

// event is what version of booking n tells.
func event(n, version int) outbox.Event {
	return outbox.Event{
		Key:       booking(n),
		Subject:   "booking.v1.changed.room-7." + booking(n),
		MessageID: fmt.Sprintf("booking-%s-v%d", booking(n), version),
		Headers:   map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		Payload:   []byte(`{"version":` + strconv.Itoa(version) + `}`),
	}
}

// write appends events in one transaction, as the booking service does.
func (r *rig) write(events ...outbox.Event) {
	r.Helper()
	batch := &pgx.Batch{}
	for _, e := range events {
		r.table.Queue(batch, e)
	}
	if err := r.db.Pool("slotwise_booking").SendBatch(r.Context(), batch).Close(); err != nil {
		r.Fatal(err)
	}
}

// fill appends version 1 of the bookings from 1 to n.
func (r *rig) fill(n int) {
	r.Helper()
	events := make([]outbox.Event, n)
	for i := range events {
		events[i] = event(i+1, 1)
	}
	r.write(events...)
}

// settings are small in every time.
func (r *rig) settings() Settings {
	return Settings{
		Table: r.table, Stream: topology.Bookings, Batch: 500, Lanes: 1,
		Times: Times{
			Poll:  50 * time.Millisecond,
			Claim: 3 * time.Second, Answer: 3 * time.Second, Tx: 10 * time.Second,
			Pause:     retry.Backoff{Base: 20 * time.Millisecond, Max: 100 * time.Millisecond},
			Again:     retry.Backoff{Base: 20 * time.Millisecond, Max: 80 * time.Millisecond},
			ParkAfter: 250 * time.Millisecond,
			Stuck:     20 * time.Second,
		},
	}
}

// dial connects as the relay does, to addr instead of the server's own address unless empty.
func (r *rig) dial(addr string) func() (*nats.Conn, error) {
	url, seed := r.bus.URL(), r.bus.SeedFile("relay") // here: the server may be stopped meanwhile
	if addr != "" {
		url = "nats://" + addr
	}
	return func() (*nats.Conn, error) {
		nkey, err := nats.NkeyOptionFromSeed(seed)
		if err != nil {
			return nil, err
		}
		return nats.Connect(url, nkey, nats.CustomInboxPrefix("_INBOX_relay"), nats.NoReconnect(),
			nats.Timeout(time.Second), nats.FlusherTimeout(500*time.Millisecond), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	}
}

// relay makes a relay on the rig; its log lines are kept.
func (r *rig) relay(s Settings, dial func() (*nats.Conn, error)) (*Relay, *observer.ObservedLogs) {
	r.Helper()
	if dial == nil {
		dial = r.dial("")
	}
	core, lines := observer.New(zap.DebugLevel)
	pool := r.db.Pool(role)
	relay, err := New(s, pool, dial, NewMetrics(prometheus.NewRegistry(), s.Table, pool), zaptest.NewLogger(r.T, zaptest.WrapOptions(zap.WrapCore(func(own zapcore.Core) zapcore.Core { return zapcore.NewTee(own, core) }))))
	if err != nil {
		r.Fatal(err)
	}
	return relay, lines
}

// run runs a relay until stop is called or the test ends.
func (r *rig) run(relay *Relay, rung <-chan struct{}) (stop func()) {
	r.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx, rung) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				r.Errorf("relay: %v", err)
			}
		case <-time.After(20 * time.Second):
			r.Error("the relay does not stop")
		}
	}
	r.Cleanup(stop)
	return stop
}

// start runs a relay with the rig's settings, changed by change.
func (r *rig) start(change func(*Settings)) (relay *Relay, lines *observer.ObservedLogs) {
	r.Helper()
	s := r.settings()
	if change != nil {
		change(&s)
	}
	relay, lines = r.relay(s, nil)
	r.run(relay, nil)
	return relay, lines
}

// count counts rows of the outbox.
func (r *rig) count(where string) (n int) {
	r.Helper()
	if err := r.db.Admin.QueryRow(r.Context(), `select count(*) from `+r.table.String()+` where `+where).Scan(&n); err != nil {
		r.Fatal(err)
	}
	return n
}

const (
	waitingRows   = `published_at is null and parked_at is null`
	publishedRows = `published_at is not null`
	parkedRows    = `parked_at is not null`
	refusedRows   = `attempts > 0`
)

// stored returns the message ids of the stream, in its order.
func (r *rig) stored() (all []string) {
	r.Helper()
	js := r.bus.JetStream(bustest.Admin)
	defer js.Conn().Close()
	stream, err := js.Stream(r.Context(), topology.Bookings)
	if err != nil {
		r.Fatal(err)
	}
	state := stream.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
		m, err := stream.GetMsg(r.Context(), seq)
		if err != nil {
			r.Fatal(err)
		}
		all = append(all, m.Header.Get(jetstream.MsgIDHeader))
	}
	return all
}

// inOrder fails when the versions of one booking go backwards.
func (r *rig) inOrder(stored []string) {
	r.Helper()
	last := map[string]int{}
	for at, id := range stored {
		cut := strings.LastIndex(id, "-v")
		version, err := strconv.Atoi(id[cut+2:])
		if err != nil {
			r.Fatal(err)
		}
		if version < last[id[:cut]] {
			r.Errorf("message %d is %s after v%d", at+1, id, last[id[:cut]])
		}
		last[id[:cut]] = version
	}
}

// eventually polls until done is true.
func (r *rig) eventually(what string, done func() bool) {
	r.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			r.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // between two looks
	}
}

func (r *rig) eventuallyCount(where string, n int) {
	r.Helper()
	r.eventually(fmt.Sprintf("%d rows where %s, the last count is %d", n, where, r.count(where)), func() bool { return r.count(where) == n })
}
