package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/pkg/retry"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/mailtest"
	"github.com/slotwise/slotwise/testkit/seed"
)

// TestMain lets a test run this binary as the service: see [world.process].
func TestMain(m *testing.M) {
	if os.Getenv("BE_THE_NOTIFIER") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// soon is long enough for everything that is to happen, on a busy machine.
const soon = time.Minute

// world is all that the notifier meets. Nobody relays in it: tests publish.
type world struct {
	t        *testing.T
	db       *dbtest.DB
	bus      *bustest.Server
	mail     *mailtest.Server
	bookings *seed.Seed
	env      map[string]string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db := dbtest.New(t)
	w := &world{t: t, db: db, bus: bustest.New(t), mail: mailtest.New(t, mailtest.Options{}), bookings: seed.New(t, db.Admin)}
	w.bookings.Resource(seed.Resource{ID: "room-7", Name: "Meeting room 7"})
	w.env = map[string]string{
		"ADMIN_ADDR":   freeAddr(t),
		"HTTP_ADDR":    "127.0.0.1:0",
		"DATABASE_URL": db.URL("slotwise_notifier"),
		"NATS_URL":     w.bus.URL(), "NATS_NKEY_FILE": w.bus.SeedFile("notifier"),
		"SMTP_URL": w.mail.URL(), "SMTP_CA_FILE": w.mail.CAFile(),
		"MAIL_FROM": "Slotwise <bookings@slotwise.example>",
		"LOG_LEVEL": "error",
	}
	return w
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// quick are times that a test can wait for.
func quick() sendlog.Times {
	t := sendlog.DefaultTimes()
	t.Poll, t.Base, t.Max = 200*time.Millisecond, 20*time.Millisecond, 100*time.Millisecond
	t.Audit, t.Young = 200*time.Millisecond, time.Second
	return t
}

// serve runs the service in this process, with quick times, until the test ends.
func (w *world) serve() { w.serveWith(quick()) }

func (w *world) serveWith(times sendlog.Times) {
	w.t.Helper()
	env := config.New("notifier", func(name string) string { return w.env[name] })
	s := readSettings(env)
	s.times = times
	if err := env.Err(); err != nil {
		w.t.Fatal(err)
	}
	if err := times.Check(); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, s, env) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("serve: %v", err)
		}
	})
}

// apply declares the streams and consumers, the planner's with at most pending messages that
// are not acknowledged (0: as many as usual).
func (w *world) apply(pending int) {
	w.t.Helper()
	consumers := topology.Consumers()
	for i, c := range consumers {
		consumers[i].Shape = func(config *jetstream.ConsumerConfig) {
			c.Shape(config)
			config.MaxAckPending = cmp.Or(pending, config.MaxAckPending)
		}
	}
	js := w.bus.JetStream("topology")
	if _, err := topology.Apply(w.t.Context(), js, topology.Streams(topology.Sizes{Replicas: 1}), consumers); err != nil {
		w.t.Fatal(err)
	}
}

// relay publishes the whole outbox, as the relay does; again is part of the message ids.
func (w *world) relay(again string) {
	w.t.Helper()
	rows, _ := w.db.Admin.Query(w.t.Context(), `select subject, message_id, payload from booking.outbox_events order by id`)
	events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
		Subject, MessageID string
		Payload            []byte
	}])
	if err != nil {
		w.t.Fatal(err)
	}
	js := w.bus.JetStream("relay")
	for _, e := range events {
		msg := nats.NewMsg(e.Subject)
		msg.Header.Set(nats.MsgIdHdr, e.MessageID+again)
		msg.Data = e.Payload
		if _, err := js.PublishMsg(w.t.Context(), msg); err != nil {
			w.t.Fatal(err)
		}
	}
}

// settled waits until the planner has acknowledged every message of BOOKINGS.
func (w *world) settled() {
	w.t.Helper()
	js := w.bus.JetStream(bustest.Admin)
	eventually(w.t, "the planner has acknowledged everything", func() bool {
		s, streamErr := js.Stream(w.t.Context(), topology.Bookings)
		c, err := js.Consumer(w.t.Context(), topology.Bookings, topology.Planner)
		return streamErr == nil && err == nil && s.CachedInfo().State.LastSeq > 0 && c.CachedInfo().AckFloor.Stream == s.CachedInfo().State.LastSeq
	})
}

// wantStates waits until there are so many rows in each state, and no other rows. An answer
// of the mail server becomes a row's state a little later.
func (w *world) wantStates(want map[sendlog.State]int) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("rows by state: %v", want), func() bool {
		rows, _ := w.db.Admin.Query(w.t.Context(), `select state, count(*) from notifier.send_log group by state`)
		counts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
			State sendlog.State
			N     int
		}])
		if err != nil {
			w.t.Fatal(err)
		}
		got := map[sendlog.State]int{}
		for _, c := range counts {
			got[c.State] = c.N
		}
		return maps.Equal(got, want)
	})
}

// wantMails fails unless every address has got so many mails.
func (w *world) wantMails(want map[string]int) {
	w.t.Helper()
	got := map[string]int{}
	for _, m := range w.mail.Messages() {
		for _, to := range m.To {
			got[to]++
		}
	}
	for address, n := range want {
		if got[address] != n {
			w.t.Errorf("%s got %d mails, want %d", address, got[address], n)
		}
		delete(got, address)
	}
	if len(got) > 0 {
		w.t.Errorf("mails to others: %v", got)
	}
}

// get asks the admin port.
func (w *world) get(path string) (status int, body string) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+w.env["ADMIN_ADDR"]+path, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	var text bytes.Buffer
	if _, err := io.Copy(&text, response.Body); err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, text.String()
}

// ready waits until /readyz says so.
func (w *world) ready() {
	w.t.Helper()
	eventually(w.t, "the notifier is ready", func() bool {
		status, _ := w.get("/readyz")
		return status == http.StatusOK
	})
}

// metric returns the sum of the series of that name.
func (w *world) metric(name string) float64 {
	w.t.Helper()
	_, text := w.get("/metrics")
	var sum float64
	series := regexp.MustCompile(`(?m)^`+name+`(?:\{.*\})? (\S+)$`).FindAllStringSubmatch(text, -1)
	if len(series) == 0 {
		w.t.Errorf("there is no metric %s", name)
	}
	for _, s := range series {
		value, err := strconv.ParseFloat(strings.TrimSpace(s[1]), 64)
		if err != nil {
			w.t.Fatal(err)
		}
		sum += value
	}
	return sum
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(soon); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", soon, what)
		}
		if err := retry.Sleep(t.Context(), 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}
