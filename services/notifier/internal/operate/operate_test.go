package operate_test

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"github.com/slotwise/slotwise/pkg/ops"
	"github.com/slotwise/slotwise/pkg/ops/message"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/services/notifier/internal/endpoint"
	"github.com/slotwise/slotwise/services/notifier/internal/operate"
	"github.com/slotwise/slotwise/services/notifier/internal/plan"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/services/notifier/internal/webhook"
	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/seed"
	"go.uber.org/zap/zaptest"
)

const resource = "room-7"

// fixture is a database with one resource, and the send log on it.
type fixture struct {
	*seed.Seed
	t   testing.TB
	db  *dbtest.DB
	log *sendlog.Log

	woken *atomic.Int64 // how often the desk has woken senders
}

func open(tb testing.TB) fixture {
	tb.Helper()
	db := dbtest.New(tb)
	f := fixture{seed.New(tb, db.Admin), tb, db, sendlog.New(db.Pool("slotwise_notifier"), sendlog.DefaultTimes()), new(atomic.Int64)}
	f.Resource(seed.Resource{ID: resource, Host: "host@rooms.example"})
	return f
}

// booked books, plans the customer's mail and returns its key.
func (f fixture) booked() (booking seed.Booking, key string) {
	f.t.Helper()
	b := f.Book(seed.Booking{Resource: resource})
	return b, f.planned(b)[0]
}

// planned plans what the last change of b owes and returns the keys.
func (f fixture) planned(b seed.Booking) []string {
	f.t.Helper()
	keys, err := f.log.Plan(f.t.Context(), plan.Owed(b.Event))
	if err != nil || len(keys) == 0 {
		f.t.Fatalf("planned %v: %v", keys, err)
	}
	return keys
}

// customerOnly removes what is planned for the host, and the host.
func (f fixture) customerOnly() {
	f.t.Helper()
	f.hostless()
	f.exec(`delete from notifier.send_log where role = 'host'`)
}

// hostless removes the host: nobody is told what became of customers' mails.
func (f fixture) hostless() {
	f.t.Helper()
	f.exec(`update booking.resources set host_address = null`)
}

// ended hands what is due and ends each hand so.
func (f fixture) ended(outcome sendlog.Outcome, answer string) {
	f.t.Helper()
	hands, _, err := f.log.Hand(f.t.Context(), 10, 10)
	if err != nil || len(hands) == 0 {
		f.t.Fatalf("%d in hand: %v", len(hands), err)
	}
	results := make([]sendlog.Result, len(hands))
	for i, h := range hands {
		results[i] = sendlog.Result{Key: h.Key, Token: h.Token, Outcome: outcome, Answer: answer}
	}
	if _, err := f.log.Write(f.t.Context(), results); err != nil {
		f.t.Fatal(err)
	}
}

// dueNow ends all waits and quiet times.
func (f fixture) dueNow() {
	f.t.Helper()
	f.exec(`update notifier.send_log set due_at = least(due_at, now()), quiet_until = least(quiet_until, now())`)
}

func (f fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.db.Admin.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}

// one runs a query of one value.
func one[T any](f fixture, sql string, args ...any) T {
	f.t.Helper()
	var value T
	if err := f.db.Pool("slotwise_notifier").QueryRow(f.t.Context(), sql, args...).Scan(&value); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// state is where a row stands, as "state" or "state: reason".
func (f fixture) state(key string) string {
	f.t.Helper()
	return one[string](f, `select state || coalesce(': ' || reason, '') from notifier.send_log where key = $1`, key)
}

func (f fixture) want(key, state string) {
	f.t.Helper()
	if got := f.state(key); got != state {
		f.t.Errorf("%s is %q, want %q", key, got, state)
	}
}

// desk answers from the fixture's database.
func (f fixture) desk(js jetstream.JetStream) *operate.Desk {
	return operate.New(f.db.Pool("slotwise_notifier"), js, endpoint.New(f.db.Pool("slotwise_notifier"), webhook.Rules{}, func() {}), func() { f.woken.Add(1) })
}

// served is a notifier that answers operators, and an operator's connection.
type served struct {
	fixture
	bus *bustest.Server
	nc  *nats.Conn
}

func serve(t *testing.T) served {
	t.Helper()
	f, bus := open(t), bustest.New(t)
	if _, err := topology.Apply(t.Context(), bus.JetStream("topology"), topology.Streams(topology.Sizes{Replicas: 1}), topology.Consumers()); err != nil {
		t.Fatal(err)
	}
	nc := bus.Connect("notifier")
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stop, err := ops.Serve(nc, "notifier", operate.About, zaptest.NewLogger(t), f.desk(js).Endpoints()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return served{f, bus, bus.Connect("dev")}
}

// ask returns the answer of an endpoint, and the error that it answered, as "400 text".
func ask[T any](s served, subject string, request any) (answer T, fault string) {
	s.t.Helper()
	data, ok := request.(string)
	if !ok {
		text, err := json.Marshal(request)
		if err != nil {
			s.t.Fatal(err)
		}
		data = string(text)
	}
	m, err := s.nc.Request(subject, []byte(data), 20*time.Second)
	if err != nil {
		s.t.Fatalf("%s: %v", subject, err)
	}
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		return answer, code + " " + m.Header.Get(micro.ErrorHeader)
	}
	decoder := json.NewDecoder(strings.NewReader(string(m.Data)))
	decoder.DisallowUnknownFields() // nothing is answered that the contract does not name
	if err := decoder.Decode(&answer); err != nil {
		s.t.Fatalf("%s answers %s: %v", subject, m.Data, err)
	}
	return answer, ""
}

// must is ask where no fault is expected.
func must[T any](s served, subject string, request any) T {
	s.t.Helper()
	answer, fault := ask[T](s, subject, request)
	if fault != "" {
		s.t.Fatalf("%s: %s", subject, fault)
	}
	return answer
}

func keys(messages []message.Message) string {
	all := make([]string, len(messages))
	for i, m := range messages {
		all[i] = m.Key
	}
	return strings.Join(all, " ")
}
