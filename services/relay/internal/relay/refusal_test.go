package relay

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/outbox"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/proxy"
	"go.uber.org/zap/zaptest"
)

// small is a stream that takes no message over 2 000 bytes.
func small(c *jetstream.StreamConfig) { c.MaxMsgSize = 2000 }

// tooLarge is an event that small refuses.
func tooLarge(n, version int) outbox.Event {
	e := event(n, version)
	e.Payload = []byte(strings.Repeat("x", 5000))
	return e
}

// B6: the first of a claim is refused, the others go on, in a small claim and in a batch.
func TestB6FirstIsRefused(t *testing.T) {
	t.Parallel()
	for _, others := range []int{2, 80} {
		t.Run(fmt.Sprintf("others=%d", others), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, small)
			events := []outbox.Event{tooLarge(1, 1)}
			for n := range others {
				events = append(events, event(n+2, 1))
			}
			r.write(events...)
			r.start(func(s *Settings) { s.Times.ParkAfter = time.Hour })
			r.eventuallyCount(publishedRows, others)
			r.eventuallyCount(refusedRows+` and last_error like '%message size exceeds%' and `+waitingRows, 1)
			if n := r.count(`attempts > 0 and key <> '` + booking(1) + `'`); n != 0 {
				t.Errorf("%d other rows had attempts burned", n)
			}
		})
	}
}

// A row that is refused for too long is parked; until then it blocks its booking's next
// event, then no longer. Unparked, it is due again.
func TestParkAndUnpark(t *testing.T) {
	t.Parallel()
	r := newRig(t, small)
	r.write(tooLarge(1, 1), event(1, 2), event(2, 1))
	relay, lines := r.start(nil)
	r.eventuallyCount(publishedRows, 1)
	r.eventuallyCount(parkedRows, 1)
	r.eventuallyCount(publishedRows, 2)
	if got, want := r.stored(), []string{event(2, 1).MessageID, event(1, 2).MessageID}; !slices.Equal(got, want) {
		t.Errorf("stored %v", got)
	}
	// 20, 40, 80 and 80 ms, then 220 ms since the first: one more.
	if n := r.count(parkedRows + ` and attempts = 6 and last_error like '%message size exceeds%'`); n != 1 {
		t.Errorf("the parked row does not tell how it came there")
	}
	if n := lines.FilterMessage("event refused").Len(); n != 5 {
		t.Errorf("%d lines of refusals", n)
	}
	if n := lines.FilterMessage("event parked: refused for too long").Len(); n != 1 {
		t.Errorf("%d lines of parking", n)
	}
	if state := relay.State(); !state.Paused.IsZero() {
		t.Errorf("the relay pauses: %s", state.Reason)
	}
	r.declare(nil)
	if n, err := r.table.Unpark(t.Context(), r.db.Pool(role)); n != 1 || err != nil {
		t.Fatalf("unparked %d: %v", n, err)
	}
	r.eventuallyCount(publishedRows, 3)
	if n := r.count(parkedRows + ` or attempts > 0`); n != 0 {
		t.Errorf("%d rows are parked or were refused", n)
	}
}

// Any service's outbox fits. One row whose subject no stream takes, or that the relay may not
// publish to, is refused itself: it must stop nobody, first or last, alone or in a batch.
func TestSubjectThatNobodyTakes(t *testing.T) {
	t.Parallel()
	for name, subject := range map[string]string{"no stream": "booking.v1.other.x.y", "no permission": "billing.v1.paid.x"} {
		for _, others := range []int{2, 80} {
			for _, at := range []int{0, others} {
				t.Run(fmt.Sprintf("%s/others=%d/at=%d", name, others, at), func(t *testing.T) {
					t.Parallel()
					r := newRig(t, nil)
					r.otherOutbox()
					for n := range others + 1 {
						e := event(n+1, 1)
						if n == at {
							e.Subject = subject
						}
						r.insert(e)
					}
					r.insert(event(at+1, 2))
					s := r.settings()
					s.Table, s.Times.Answer = r.table, 300*time.Millisecond
					relay, _ := r.relay(s, nil)
					r.run(relay, nil)
					// Behind it others come, which show that the stream is not the trouble.
					next := 1000
					r.eventually("parked", func() bool {
						r.insert(event(next, 1))
						next++
						return r.count(parkedRows) == 1
					})
					r.eventuallyCount(waitingRows, 0)
					if n := r.count(publishedRows); n != others+1+next-1000 {
						t.Errorf("%d rows are published, wanted %d", n, others+1+next-1000)
					}
				})
			}
		}
	}
}

// otherOutbox makes an outbox without booking's checks the rig's.
func (r *rig) otherOutbox() {
	r.Helper()
	_, err := r.db.Admin.Exec(r.Context(), `
		create schema other;
		create table other.outbox_events (like booking.outbox_events including all excluding constraints);
		grant usage on schema other to slotwise_relay;
		grant select, update on other.outbox_events to slotwise_relay`)
	if err != nil {
		r.Fatal(err)
	}
	if r.table, err = outbox.In("other.outbox_events"); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) insert(e outbox.Event) {
	r.Helper()
	_, err := r.db.Admin.Exec(r.Context(), `insert into `+r.table.String()+` (key, subject, message_id, payload) values ($1, $2, $3, $4)`,
		e.Key, e.Subject, e.MessageID, e.Payload)
	if err != nil {
		r.Fatal(err)
	}
}

// Issue 3 §4.11: no stream. Nothing is lost, no attempt is burned, one line a wait.
func TestNoStream(t *testing.T) {
	t.Parallel()
	for _, events := range []int{3, 120} {
		t.Run(fmt.Sprintf("events=%d", events), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.noStream()
			r.fill(events)
			relay, lines := r.start(nil)
			r.eventually("five pauses", func() bool { return lines.FilterMessage("relay pauses").Len() >= 5 })
			if state := relay.State(); state.Paused.IsZero() || !strings.Contains(state.Reason, "no response from stream") {
				t.Errorf("state %+v", state)
			}
			if n := r.count(waitingRows + ` and attempts = 0`); n != events {
				t.Errorf("%d rows wait untouched", n)
			}
			r.declare(nil)
			r.eventuallyCount(publishedRows, events)
			r.eventually("it goes on", func() bool { return relay.State().Paused.IsZero() })
			if n := lines.FilterMessage("relay goes on").Len(); n != 1 {
				t.Errorf("%d lines of going on", n)
			}
		})
	}
}

// B50 and B51: a row whose mark was lost is published again. Within the dedupe window that is
// its own earlier try and stored once; after it the stream has it twice, under one id.
func TestB50B51MarkLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fill(3)
	relay, _ := r.start(nil)
	r.eventuallyCount(publishedRows, 3)
	loseMarks := func() {
		t.Helper()
		if _, err := r.db.Admin.Exec(t.Context(), `update booking.outbox_events set published_at = null`); err != nil {
			t.Fatal(err)
		}
		r.eventuallyCount(publishedRows, 3)
	}
	loseMarks()
	if n := len(r.stored()); n != 3 {
		t.Errorf("%d messages", n)
	}
	if n := value(t, relay.metrics.duplicates); n != 3 {
		t.Errorf("%v duplicates", n)
	}
	r.declare(func(c *jetstream.StreamConfig) { c.Duplicates = 100 * time.Millisecond })
	time.Sleep(200 * time.Millisecond) //nolint:forbidigo // the window is a time
	loseMarks()
	stored := r.stored()
	if len(stored) != 6 || !slices.Equal(stored[:3], stored[3:]) {
		t.Errorf("stored %v", stored)
	}
}

// In a batch, one id that is stored already refuses all; one by one, the others go.
func TestBatchWithAStoredID(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fill(120)
	js := r.bus.JetStream("relay")
	m := nats.NewMsg(event(60, 1).Subject)
	m.Header.Set(jetstream.MsgIDHeader, event(60, 1).MessageID)
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	relay, lines := r.start(nil)
	r.eventuallyCount(publishedRows, 120)
	if n := len(r.stored()); n != 120 {
		t.Errorf("%d messages", n)
	}
	if n := value(t, relay.metrics.duplicates); n != 1 {
		t.Errorf("%v duplicates", n)
	}
	if n := lines.FilterMessage("relay pauses").Len(); n != 0 {
		t.Errorf("%d pauses", n)
	}
}

// B52: an id that is remembered for a message that is not stored (sequence 0) is no success.
func TestB52RememberedButNotStored(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.noStream()
	liar := r.bus.Connect(bustest.Admin)
	sub, err := liar.Subscribe("booking.v1.>", func(m *nats.Msg) {
		_ = m.Respond([]byte(`{"stream":"BOOKINGS","seq":0,"duplicate":true}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	r.fill(2)
	_, lines := r.start(nil)
	r.eventually("three pauses", func() bool { return lines.FilterMessage("relay pauses").Len() >= 3 })
	if n := r.count(waitingRows + ` and attempts = 0`); n != 2 {
		t.Errorf("%d rows wait untouched", n)
	}
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	r.declare(nil)
	r.eventuallyCount(publishedRows, 2)
}

// B54: a full stream refuses, the outbox keeps the rest, and all go when there is room.
func TestB54StreamFull(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *jetstream.StreamConfig) { c.MaxMsgs = 100 })
	r.fill(150)
	relay, lines := r.start(nil)
	r.eventuallyCount(publishedRows, 100)
	r.eventually("a pause", func() bool { return !relay.State().Paused.IsZero() })
	if n := r.count(waitingRows + ` and attempts = 0`); n != 50 {
		t.Errorf("%d rows wait untouched", n)
	}
	r.declare(nil)
	r.eventuallyCount(publishedRows, 150)
	if n := len(r.stored()); n != 150 {
		t.Errorf("%d messages", n)
	}
	if n := lines.FilterMessage("event refused").Len(); n != 0 {
		t.Errorf("%d refusals", n)
	}
}

// B56: the server's storage is full. Recovers without a restart.
func TestB56StorageFull(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, bustest.Change(func(o *server.Options) { o.JetStreamMaxStore = 1 << 20 }))
	for n := range 40 {
		e := event(n+1, 1)
		e.Payload = []byte(strings.Repeat("x", 60_000))
		r.write(e)
	}
	relay, lines := r.start(nil)
	r.eventually("three pauses", func() bool { return lines.FilterMessage("relay pauses").Len() >= 3 })
	t.Logf("paused by: %s", relay.State().Reason)
	kept := r.count(waitingRows)
	if n := r.count(waitingRows + ` and attempts = 0`); n != kept || kept == 0 {
		t.Errorf("%d of %d rows wait untouched", n, kept)
	}
	stream, err := r.bus.JetStream(bustest.Admin).Stream(t.Context(), topology.Bookings)
	if err != nil {
		t.Fatal(err)
	}
	r.eventually("all published", func() bool {
		if err := stream.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		return r.count(publishedRows) == 40
	})
}

// B58: NATS comes after the relay. B38's side of the relay: the store is wiped while it runs.
func TestB58NATSLater(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.bus.Stop()
	r.fill(3)
	relay, lines := r.start(nil)
	r.eventually("three pauses", func() bool { return lines.FilterMessage("relay pauses").Len() >= 3 })
	if relay.State().Paused.IsZero() {
		t.Error("it does not pause")
	}
	r.bus.Start()
	r.eventuallyCount(publishedRows, 3)
	r.bus.Wipe()
	r.write(event(4, 1))
	r.eventually("a pause", func() bool { return !relay.State().Paused.IsZero() })
	r.declare(nil)
	r.eventuallyCount(publishedRows, 4)
	if n := r.count(refusedRows); n != 0 {
		t.Errorf("%d rows had attempts burned", n)
	}
}

// B9: what a claim had in hand when its connection died is free at once.
func TestB9ConnectionDies(t *testing.T) {
	t.Parallel()
	for _, events := range []int{5, 120} {
		t.Run(fmt.Sprintf("events=%d", events), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			way := proxy.New(t, r.bus.URL())
			died := way.When(proxy.ToServer, regexp.MustCompile(`HPUB`), func(c *proxy.Conn) { c.Cut() })
			r.fill(events)
			relay, lines := r.relay(r.settings(), r.dial(way.Addr()))
			r.run(relay, nil)
			<-died
			r.eventuallyCount(publishedRows, events)
			if n := lines.FilterMessage("relay pauses").Len(); n != 1 {
				t.Errorf("%d pauses", n)
			}
			if stored := r.stored(); len(stored) != events {
				t.Errorf("%d messages", len(stored))
			}
		})
	}
}

// The same with PostgreSQL, between publish and commit: published again, stored once.
func TestDatabaseConnectionDies(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	way := proxy.New(t, r.bus.URL())
	died := way.When(proxy.ToClient, regexp.MustCompile(`"seq":`), func(*proxy.Conn) {
		if _, err := r.db.Admin.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity where usename = $1 and datname = current_database()`, role); err != nil {
			t.Error(err)
		}
	})
	r.fill(5)
	relay, _ := r.relay(r.settings(), r.dial(way.Addr()))
	r.run(relay, nil)
	<-died
	r.eventuallyCount(publishedRows, 5)
	if n := len(r.stored()); n != 5 {
		t.Errorf("%d messages", n)
	}
	if n := value(t, relay.metrics.duplicates); n != 5 {
		t.Errorf("%v duplicates", n)
	}
}

// A frozen server gives no answer: the relay pauses, and nothing is stored twice or reversed.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	for _, d := range []proxy.Direction{proxy.ToServer, proxy.ToClient} {
		t.Run(fmt.Sprintf("direction=%d", d), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			way := proxy.New(t, r.bus.URL())
			s := r.settings()
			s.Times.Answer = 300 * time.Millisecond
			relay, lines := r.relay(s, r.dial(way.Addr()))
			r.run(relay, nil)
			r.eventually("a pass", passes(relay))
			way.Hold(d)
			for v := range 2 {
				for n := range 60 {
					r.write(event(n+1, v+1))
				}
			}
			r.eventually("two pauses", func() bool { return lines.FilterMessage("relay pauses").Len() >= 2 })
			if n := r.count(waitingRows + ` and attempts = 0`); n != 120 {
				t.Errorf("%d rows wait untouched", n)
			}
			way.Resume()
			r.eventuallyCount(publishedRows, 120)
			stored := r.stored()
			r.inOrder(stored)
			if len(stored) != 120 {
				t.Errorf("%d messages", len(stored))
			}
		})
	}
}

// B31: PostgreSQL is frozen. The pass ends, and the relay goes on by itself afterwards.
func TestB31FrozenDatabase(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	way := proxy.New(t, r.db.URL(""))
	pool, err := pgxpool.New(t.Context(), way.URL(r.db.URL(role)))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s := r.settings()
	s.Times.Claim, s.Times.Answer, s.Times.Tx = 300*time.Millisecond, 300*time.Millisecond, time.Second
	relay, err := New(s, pool, r.dial(""), NewMetrics(prometheus.NewRegistry(), s.Table, pool), zaptest.NewLogger(t))
	if err != nil {
		t.Fatal(err)
	}
	stop := r.run(relay, nil)
	defer stop()
	r.eventually("a pass", passes(relay))
	way.Hold(proxy.ToClient)
	r.fill(3)
	for range 2 {
		r.eventually("a pass ends", passes(relay))
	}
	if relay.State().Paused.IsZero() {
		t.Error("it does not pause")
	}
	way.Resume()
	r.eventuallyCount(publishedRows, 3)
	if n := len(r.stored()); n != 3 {
		t.Errorf("%d messages", n)
	}
}
