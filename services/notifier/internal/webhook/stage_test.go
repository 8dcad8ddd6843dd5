package webhook

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/hooktest"
	"go.uber.org/zap/zaptest"
)

// soon is how long a test waits for what comes at once.
const soon = 20 * time.Second

// quick are times for tests: the steps are as long as a test needs to look in between.
func quick() Times {
	t := DefaultTimes()
	t.Steps = []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond, time.Millisecond, time.Millisecond, time.Millisecond, time.Millisecond, time.Millisecond, time.Millisecond}
	t.Spread, t.Lost = 0, time.Millisecond
	t.Sweep, t.Poll = 50*time.Millisecond, 50*time.Millisecond
	return t
}

// stage is a database, a receiver and what senders need.
type stage struct {
	t        testing.TB
	db       *dbtest.DB
	log      *sendlog.Log
	hooks    *hooktest.Server
	times    Times
	settings Settings
	resolver *net.Resolver
}

func newStage(tb testing.TB, times Times, o hooktest.Options) *stage {
	tb.Helper()
	if err := times.Check(); err != nil {
		tb.Fatal(err)
	}
	db, hooks := dbtest.New(tb), hooktest.New(tb, o)
	return &stage{
		t: tb, db: db, hooks: hooks, times: times, log: sendlog.New(db.Pool("slotwise_notifier"), sendlog.DefaultTimes()),
		settings: Settings{Rules: Rules{HTTP: true, Allow: prefixes("127.0.0.0/8", "::1/128")}, CAs: hooks.Pool(), Connections: 16, Drain: soon},
	}
}

// secret is one that is made of a letter.
func secret(letter string) string {
	return Prefix + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(letter), 32))
}

// endpoint makes one, with the secret of the letter a.
func (s *stage) endpoint(id, url string) string {
	s.t.Helper()
	s.exec(`insert into notifier.endpoints (id, url, owner, created_at) values ($1, $2, 'owner@teams.example', now() - interval '1 day')`, id, url)
	s.exec(`insert into notifier.endpoint_secrets (endpoint, secret) values ($1, $2)`, id, secret("a"))
	return id
}

// plan plans one webhook of an event of its own, due now, and returns its key.
func (s *stage) plan(endpoint string) string {
	s.t.Helper()
	return s.planMany(endpoint, 1)[0]
}

func (s *stage) planMany(endpoint string, n int) (keys []string) {
	s.t.Helper()
	var all []sendlog.Message
	for range n {
		m := message(s.t, endpoint, uuid.NewString(), 1)
		all, keys = append(all, m), append(keys, m.Key)
	}
	s.planAll(all...)
	return keys
}

func (s *stage) planAll(messages ...sendlog.Message) {
	s.t.Helper()
	if _, err := s.log.Plan(s.t.Context(), messages); err != nil {
		s.t.Fatal(err)
	}
}

// message is the webhook of version of booking.
func message(tb testing.TB, endpoint, booking string, version int64) sendlog.Message {
	tb.Helper()
	start := time.Date(2026, 12, 3, 13, 0, 0, 0, time.UTC)
	e := event.New(event.Confirmed, time.Date(2026, 12, 1, 9, 0, 0, 123456000, time.UTC), event.Data{
		Booking: booking, Version: version, StartVersion: version, ToldCustomer: version, Status: event.StatusConfirmed,
		Resource: "room-7", Start: start, End: start.Add(time.Hour), Zone: "Europe/Berlin", Seats: 2,
		Customer: "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e60", Changed: []string{"status"},
	})
	body, err := e.Encode()
	if err != nil {
		tb.Fatal(err)
	}
	return sendlog.Message{
		Key: id.Webhook(e.ID, endpoint), Channel: sendlog.Webhook, Kind: sendlog.WebhookFor, Booking: booking, Version: version, Endpoint: endpoint,
		DueAt: time.Now(), Facts: sendlog.Facts{Event: body},
	}
}

// sender is one that runs.
type sender struct {
	*Sender
	registry *prometheus.Registry
	stop     context.CancelFunc
	done     chan struct{}
}

// start runs a sender until the test ends or end is called.
func (s *stage) start() *sender {
	s.t.Helper()
	registry := prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(context.Background())
	r := &sender{
		newSender(s.db.Pool("slotwise_notifier"), s.settings, s.times, s.log.WokenWebhooks(), zaptest.NewLogger(s.t), registry, s.resolver),
		registry, cancel, make(chan struct{}),
	}
	go func() {
		defer close(r.done)
		if err := r.Run(ctx); err != nil {
			s.t.Errorf("Run: %v", err)
		}
	}()
	s.t.Cleanup(r.end)
	return r
}

// end stops the sender and waits for it.
func (r *sender) end() {
	r.stop()
	<-r.done
}

// idle is a sender that does not run: tests call its steps.
func (s *stage) idle() *Sender {
	s.t.Helper()
	return newSender(s.db.Pool("slotwise_notifier"), s.settings, s.times, s.log.WokenWebhooks(), zaptest.NewLogger(s.t), prometheus.NewRegistry(), s.resolver)
}

// take hands at most n.
func (s *stage) take(sender *Sender, n int) []Hand {
	s.t.Helper()
	hands, _, err := sender.hand(s.t.Context(), n, n)
	if err != nil {
		s.t.Fatal(err)
	}
	return hands
}

// one hands exactly one.
func (s *stage) one(sender *Sender) Hand {
	s.t.Helper()
	hands := s.take(sender, 10)
	if len(hands) != 1 {
		s.t.Fatalf("%d in hand, want 1", len(hands))
	}
	return hands[0]
}

func (s *stage) write(sender *Sender, ends ...end) []disabled {
	s.t.Helper()
	off, err := sender.writeOnce(s.t.Context(), ends)
	if err != nil {
		s.t.Fatal(err)
	}
	return off
}

func (s *stage) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.db.Admin.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) text(sql string, args ...any) (text string) {
	s.t.Helper()
	if err := s.db.Admin.QueryRow(s.t.Context(), sql, args...).Scan(&text); err != nil {
		s.t.Fatal(err)
	}
	return text
}

func (s *stage) number(sql string, args ...any) (n int64) {
	s.t.Helper()
	if err := s.db.Admin.QueryRow(s.t.Context(), sql, args...).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// state is where a row stands, as "state" or "state: reason".
func (s *stage) state(key string) string {
	s.t.Helper()
	return s.text(`select state || coalesce(': ' || reason, '') from notifier.send_log where key = $1`, key)
}

func (s *stage) want(key, state string) {
	s.t.Helper()
	if got := s.state(key); got != state {
		s.t.Errorf("%s is %q, want %q", key, got, state)
	}
}

// await waits until a row's state begins so.
func (s *stage) await(key, state string) {
	s.t.Helper()
	s.until(fmt.Sprintf("%s is %s", key, state), func() bool { return strings.HasPrefix(s.state(key), state) })
}

func (s *stage) until(what string, is func() bool) {
	s.t.Helper()
	for end := time.Now().Add(soon); !is(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("not within %s: %s", soon, what)
		}
	}
}
