package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/proxy"
)

func TestHelpNamesEverySetting(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, func(string) string { return "" }, &out); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"OUTBOX_TABLE", "RELAY_STREAM", "RELAY_BATCH", "RELAY_LANES", "RELAY_POLL", "DOORBELL",
		"DATABASE_URL", "DATABASE_POOL", "NATS_URL", "NATS_NKEY_FILE", "ADMIN_ADDR", "LOG_LEVEL",
	} {
		if !strings.Contains(out.String(), name) {
			t.Errorf("no %s in the help", name)
		}
	}
}

// B148: all mistakes at once, and no secret in any of them.
func TestB148MistakesWithoutSecrets(t *testing.T) {
	settings := map[string]string{
		"DATABASE_URL": "postgres://relay:q^G$%zz@host:port/slotwise",
		"NATS_URL":     "nats://relay:q^G$%zz@host",
		"OUTBOX_TABLE": "Outbox; drop", "RELAY_BATCH": "1001", "RELAY_LANES": "0", "RELAY_POLL": "1h",
	}
	err := run(t.Context(), nil, func(name string) string { return settings[name] }, io.Discard)
	if err == nil {
		t.Fatal("accepted")
	}
	for name := range settings {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("no word of %s in %v", name, err)
		}
	}
	if strings.Contains(err.Error(), "zz") {
		t.Errorf("the secret is in %v", err)
	}
}

// B58: it starts with nothing there, is alive and not ready, and works once all is there.
func TestB58NothingThereYet(t *testing.T) {
	t.Parallel()
	db, bus := dbtest.New(t), bustest.New(t)
	toDB, toNATS := proxy.New(t, db.URL("")), proxy.New(t, bus.URL())
	toDB.Refuse()
	toNATS.Refuse()
	insert(t, db, 3, 1)
	p := start(t, db, bus, "DATABASE_URL="+toDB.URL(db.URL("slotwise_relay")), "NATS_URL="+toNATS.URL(bus.URL()), "RELAY_POLL=100ms")
	eventually(t, "alive", func() bool { status, _ := p.get("/livez"); return status == http.StatusOK })
	status, body := p.get("/readyz")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "nats: not connected") || !strings.Contains(body, "postgres: ") {
		t.Errorf("ready: %d %s", status, body)
	}
	toDB.Accept()
	toNATS.Accept()
	declare(t, bus)
	eventually(t, "published", func() bool { return waiting(t, db) == 0 })
	eventually(t, "ready", func() bool { status, _ := p.get("/readyz"); return status == http.StatusOK })
	if _, body := p.get("/metrics"); !strings.Contains(body, "slotwise_relay_published_total 3") {
		t.Error("the metrics do not tell")
	}
	p.signal(syscall.SIGTERM)
	if err := p.wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// B31: PostgreSQL is frozen: readiness answers all the same, and liveness stays.
func TestB31ReadinessOfAFrozenDatabase(t *testing.T) {
	t.Parallel()
	db, bus := dbtest.New(t), bustest.New(t)
	toDB := proxy.New(t, db.URL(""))
	p := start(t, db, bus, "DATABASE_URL="+toDB.URL(db.URL("slotwise_relay")))
	eventually(t, "ready", func() bool { status, _ := p.get("/readyz"); return status == http.StatusOK })
	toDB.Hold(proxy.ToClient)
	began := time.Now()
	if status, body := p.get("/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("ready: %d %s", status, body)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the answer took %s", took)
	}
	if status, body := p.get("/livez"); status != http.StatusOK {
		t.Errorf("alive: %d %s", status, body)
	}
	toDB.Resume()
	eventually(t, "ready", func() bool { status, _ := p.get("/readyz"); return status == http.StatusOK })
}

func TestOperators(t *testing.T) {
	t.Parallel()
	db, bus := dbtest.New(t), bustest.New(t)
	declare(t, bus)
	insert(t, db, 2, 1)
	if _, err := db.Admin.Exec(t.Context(), `update booking.outbox_events set parked_at = now(), attempts = 16, last_error = 'too large'`); err != nil {
		t.Fatal(err)
	}
	start(t, db, bus)
	dev := bus.Connect("dev")
	ask := func(subject, request string) (answer map[string]any, code string) {
		t.Helper()
		var m *nats.Msg
		eventually(t, "an answer", func() (done bool) {
			var err error
			m, err = dev.Request(subject, []byte(request), 5*time.Second)
			return !errors.Is(err, nats.ErrNoResponders) && err == nil
		})
		if code := m.Header.Get("Nats-Service-Error-Code"); code != "" {
			return nil, code
		}
		if err := json.Unmarshal(m.Data, &answer); err != nil {
			t.Fatal(err)
		}
		return answer, ""
	}
	report, _ := ask("ops.get.relay", "")
	rows, ok := report["parked_rows"].([]any)
	if report["parked"] != 2.0 || report["waiting"] != 0.0 || report["stream"] != "BOOKINGS" || !ok || len(rows) != 2 {
		t.Errorf("report %v", report)
	}
	for _, bad := range []string{"", "{", `{"all":true,"ids":[1]}`, `{"id":1}`} {
		if _, code := ask("ops.do.dev.unpark", bad); code != "400" {
			t.Errorf("%q: code %q", bad, code)
		}
	}
	if answer, _ := ask("ops.do.dev.unpark", `{"ids":[1,77]}`); answer["unparked"] != 1.0 {
		t.Errorf("answer %v", answer)
	}
	eventually(t, "one parked, the other published", func() bool {
		report, _ := ask("ops.get.relay", "")
		return report["parked"] == 1.0 && bus.Messages(t.Context(), topology.Bookings) == 1
	})
	if answer, _ := ask("ops.do.dev.unpark", `{"all":true}`); answer["unparked"] != 1.0 {
		t.Errorf("answer %v", answer)
	}
	var recorded string
	if err := db.Admin.QueryRow(t.Context(), `
		select string_agg(operator || ' ' || operation || ' ' || arguments || ' ' || affected, ', ' order by id) from notifier.operations`).Scan(&recorded); err != nil {
		t.Fatal(err)
	}
	if want := `dev unpark {"ids": [1, 77]} 1, dev unpark {"all": true} 1`; recorded != want {
		t.Errorf("recorded %s", recorded)
	}
}

// The whole of it with a real process: SIGSTOP in the middle of a claim, for longer than the
// dedupe window. Another relay is held up for the transaction's timeout at most, and what
// the thawed one does then puts no version behind a newer one.
func TestFrozenProcess(t *testing.T) {
	t.Parallel()
	const bookings = 5000
	for _, batches := range []bool{true, false} {
		t.Run(fmt.Sprintf("batches=%t", batches), func(t *testing.T) {
			t.Parallel()
			db := dbtest.New(t)
			bus := bustest.New(t, bustest.Change(func(o *server.Options) { o.PingInterval, o.MaxPingsOut = 200*time.Millisecond, 1 }))
			config := jetstream.StreamConfig{Name: topology.Bookings}
			topology.Streams(topology.Sizes{Replicas: 1})[0].Shape(&config)
			config.AllowAtomicPublish, config.Duplicates = batches, 500*time.Millisecond
			if _, err := bus.JetStream("topology").CreateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			if _, err := db.Admin.Exec(t.Context(), `alter role slotwise_relay in database `+db.Name+` set idle_in_transaction_session_timeout = '2s'`); err != nil {
				t.Fatal(err)
			}
			insert(t, db, bookings, 1)
			first := start(t, db, bus, "RELAY_BATCH=1000", "RELAY_POLL=100ms")
			eventually(t, "in the middle", func() bool { return bus.Messages(t.Context(), topology.Bookings) > 0 })
			first.signal(syscall.SIGSTOP)
			frozen := time.Now()
			insert(t, db, bookings, 2)
			start(t, db, bus, "RELAY_POLL=100ms")
			eventually(t, "all published by the second", func() bool { return waiting(t, db) == 0 })
			t.Logf("%d events were published within %s of the freeze", 2*bookings, time.Since(frozen).Round(10*time.Millisecond))
			time.Sleep(time.Until(frozen.Add(time.Second))) //nolint:forbidigo // the dedupe window is a time
			first.signal(syscall.SIGCONT)
			insert(t, db, bookings, 3)
			eventually(t, "all published by both", func() bool { return waiting(t, db) == 0 })
			eventually(t, "the thawed one works", func() bool { status, _ := first.get("/readyz"); return status == http.StatusOK })
			checkOrder(t, bus, bookings, 3)
		})
	}
}

// checkOrder fails when a version of a booking is missing or comes after a newer one.
func checkOrder(t *testing.T, bus *bustest.Server, bookings, versions int) {
	t.Helper()
	js := bus.JetStream(bustest.Admin)
	consumer, err := js.OrderedConsumer(t.Context(), topology.Bookings, jetstream.OrderedConsumerConfig{HeadersOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	messages := int(bus.Messages(t.Context(), topology.Bookings))
	last := map[string]int{}
	for seen := 0; seen < messages; {
		batch, err := consumer.Fetch(messages-seen, jetstream.FetchMaxWait(5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		before := seen
		for m := range batch.Messages() {
			seen++
			id := m.Headers().Get(jetstream.MsgIDHeader)
			cut := strings.LastIndex(id, "-v")
			version, err := strconv.Atoi(id[cut+2:])
			if err != nil {
				t.Fatal(err)
			}
			if key := id[:cut]; version != last[key]+1 && version != last[key] {
				t.Fatalf("message %d is %s after v%d", seen, id, last[key])
			}
			last[id[:cut]] = version
		}
		if seen == before {
			t.Fatalf("%d of %d messages came", seen, messages)
		}
	}
	if len(last) != bookings {
		t.Errorf("%d bookings of %d", len(last), bookings)
	}
	for id, version := range last {
		if version != versions {
			t.Errorf("%s ends with v%d", id, version)
		}
	}
}

func declare(tb testing.TB, bus *bustest.Server) {
	tb.Helper()
	if _, err := topology.Apply(tb.Context(), bus.JetStream("topology"), topology.Streams(topology.Sizes{Replicas: 1}), nil); err != nil {
		tb.Fatal(err)
	}
}

// insert writes a version of each of the bookings from 1 to n.
func insert(tb testing.TB, db *dbtest.DB, n, version int) {
	tb.Helper()
	_, err := db.Admin.Exec(tb.Context(), `
		insert into booking.outbox_events (key, subject, message_id, payload)
		select id, 'booking.v1.changed.room-7.' || id, 'booking-' || id || '-v' || $2::int, convert_to(repeat('x', 600), 'utf8')
		from generate_series(1, $1::int) n, lateral (select '0192a4e0-0000-7000-8000-' || lpad(to_hex(n), 12, '0')) as i (id)`, n, version)
	if err != nil {
		tb.Fatal(err)
	}
}

func waiting(tb testing.TB, db *dbtest.DB) (n int) {
	tb.Helper()
	if err := db.Admin.QueryRow(tb.Context(), `select count(*) from booking.outbox_events where published_at is null and parked_at is null`).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func eventually(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // between two looks
		if time.Now().After(deadline) {
			tb.Fatalf("not within a minute: %s", what)
		}
	}
}

// atExit is what to clean up after all tests.
var atExit []func()

func TestMain(m *testing.M) {
	code := m.Run()
	for _, f := range atExit {
		f()
	}
	os.Exit(code)
}
