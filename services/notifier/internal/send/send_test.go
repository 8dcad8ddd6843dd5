package send_test

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/services/notifier/internal/send"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/mailtest"
	"github.com/slotwise/slotwise/testkit/seed"
	"go.uber.org/zap/zaptest"
)

// soon is long enough for everything that is to happen, on a busy machine.
const soon = 20 * time.Second

// quick are times that a test can wait for.
func quick() sendlog.Times {
	t := sendlog.DefaultTimes()
	t.Poll, t.Base, t.Max, t.Sweep = 200*time.Millisecond, 20*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	t.Steps = []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}
	return t
}

// stage is a database with a resource, a mail server, and senders between them.
type stage struct {
	t     *testing.T
	db    *dbtest.DB
	seed  *seed.Seed
	mail  *mailtest.Server
	times sendlog.Times
	log   *sendlog.Log
	way   *gate // to PostgreSQL, if it was asked for

	settings send.Settings
	render   send.Render
	from     send.ReturnPath
}

func newStage(t *testing.T, times sendlog.Times, options mailtest.Options) *stage {
	t.Helper()
	if err := times.Check(); err != nil {
		t.Fatal(err)
	}
	db := dbtest.New(t)
	mail := mailtest.New(t, options)
	server, err := url.Parse(mail.URL())
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{
		t: t, db: db, seed: seed.New(t, db.Admin), mail: mail, times: times, render: render,
		log:      sendlog.New(db.Pool("slotwise_notifier"), times),
		settings: send.Settings{Server: server, TLS: send.Mandatory, CAs: mail.Pool(), Hello: "notifier.example", Connections: 4, Drain: soon},
		from:     func(sendlog.Hand) string { return "bookings@slotwise.example" },
	}
	s.seed.Resource(seed.Resource{ID: "room-7", Host: "host@rooms.example"})
	return s
}

// render makes a small mail of a hand.
func render(h sendlog.Hand) ([]byte, error) {
	return fmt.Appendf(nil, "Message-ID: <%s@slotwise.example>\r\nSlotwise-Hand: %s\r\nSubject: %s\r\nTo: %s\r\n\r\n.%s\r\n", h.Key, h.Token, h.Kind, h.To(), h.Booking), nil
}

// sender is one that runs.
type sender struct {
	*send.Sender
	registry *prometheus.Registry
	stop     context.CancelFunc
	done     chan struct{}
}

// start runs a sender until the test ends or stop is called.
func (s *stage) start() *sender {
	s.t.Helper()
	registry := prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(context.Background())
	r := &sender{send.New(s.log, s.settings, s.render, s.from, zaptest.NewLogger(s.t), registry), registry, cancel, make(chan struct{})}
	go func() {
		defer close(r.done)
		if err := r.Run(ctx); err != nil {
			s.t.Errorf("Run: %v", err)
		}
	}()
	s.t.Cleanup(func() {
		if s.way != nil {
			s.way.open() // or its results are never written
		}
		r.end()
	})
	return r
}

// end stops the sender and waits for it.
func (r *sender) end() {
	r.stop()
	<-r.done
}

// counter is the sum of a counter over its labels.
func (r *sender) counter(t *testing.T, name string) (sum float64) {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// hostless removes the host: nobody is told what became of customers' mails.
func (s *stage) hostless() {
	s.t.Helper()
	s.exec(`update booking.resources set host_address = null`)
}

// book makes a confirmed booking.
func (s *stage) book() seed.Booking {
	s.t.Helper()
	return s.seed.Book(seed.Booking{Resource: "room-7"})
}

// message is the customer's mail of kind about b as it stands, due now.
func message(b seed.Booking, kind sendlog.Kind) sendlog.Message {
	m := sendlog.Message{
		Key:     id.Mail{Kind: string(kind), Booking: b.ID, Version: b.Version}.String(),
		Channel: sendlog.Email, Booking: b.ID, Kind: kind, Version: b.Version, StartVersion: b.StartVersion, Role: sendlog.Customer,
		DueAt: time.Now().Add(-time.Millisecond), Facts: sendlog.Facts{Status: string(b.Status), Resource: b.Resource},
	}
	if kind == sendlog.Reminder {
		m.Key, m.Urgency = id.Reminder(b.ID, b.StartVersion), sendlog.UrgentReminder
	}
	return m
}

// confirm plans the confirmation of a new booking and returns its key.
func (s *stage) confirm() string {
	s.t.Helper()
	m := message(s.book(), sendlog.Confirm)
	s.plan(m)
	return m.Key
}

func (s *stage) plan(messages ...sendlog.Message) {
	s.t.Helper()
	if _, err := s.log.Plan(s.t.Context(), messages); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.db.Admin.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) number(sql string, args ...any) (n int64) {
	s.t.Helper()
	if err := s.db.Admin.QueryRow(s.t.Context(), sql, args...).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// await waits until a row's "state" or "state: reason" matches pattern.
func (s *stage) await(key, pattern string) {
	s.t.Helper()
	wanted := regexp.MustCompile("^(?:" + pattern + ")$")
	state := ""
	for end := time.Now().Add(soon); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		err := s.db.Admin.QueryRow(s.t.Context(), `select state || coalesce(': ' || reason, '') from notifier.send_log where key = $1`, key).Scan(&state)
		if err != nil {
			s.t.Fatal(err)
		}
		if wanted.MatchString(state) {
			return
		}
	}
	s.t.Fatalf("%s is %q, want %q", key, state, pattern)
}

// copies counts the accepted mails of each key.
func (s *stage) copies() map[string]int {
	n := map[string]int{}
	for _, m := range s.mail.Messages() {
		n[key(m)]++
	}
	return n
}

// key is the key of the row that a mail is of.
func key(m mailtest.Message) string {
	return regexp.MustCompile(`@.*`).ReplaceAllString(m.MessageID, "")
}

// bookingOf is the booking that a key is about.
func bookingOf(key string) string {
	return regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).FindString(key)
}

// exactlyOnce fails unless each key was accepted once.
func (s *stage) exactlyOnce(keys ...string) {
	s.t.Helper()
	copies := s.copies()
	for _, key := range keys {
		if copies[key] != 1 {
			s.t.Errorf("%s was accepted %d times", key, copies[key])
		}
	}
	if len(copies) != len(keys) {
		s.t.Errorf("%d mails were accepted, want %d", len(copies), len(keys))
	}
}
