package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/dbtest"
)

// BenchmarkRelay relays 100 000 rows of 600 bytes with the binary as it ships, and compares
// its rate with what the same server takes from an asynchronous publisher in the same run.
//
//	go test -run '^$' -bench Relay -benchtime 1x ./cmd/relay
func BenchmarkRelay(b *testing.B) {
	const rows = 100_000
	for _, published := range []int{0, 1_000_000} {
		for name, options := range map[string][]bustest.Option{"default": nil, "always": {bustest.SyncAlways()}} {
			b.Run(fmt.Sprintf("sync=%s/published=%d", name, published), func(b *testing.B) {
				for b.Loop() {
					db, bus := dbtest.New(b), bustest.New(b, options...)
					declare(b, bus)
					fill(b, db, 1, published, true)
					limit := asyncLimit(b, bus, rows)
					fill(b, db, published+1, rows, false)

					began := time.Now()
					p := start(b, db, bus)
					eventually(b, "all published", func() bool { return waiting(b, db) == 0 })
					rate := rows / time.Since(began).Seconds()
					if n := bus.Messages(b.Context(), topology.Bookings); n != rows {
						b.Fatalf("%d messages", n)
					}
					b.ReportMetric(rate, "events/s")
					b.ReportMetric(limit, "async-limit/s")
					b.ReportMetric(rate/limit, "ratio")
					b.ReportMetric(p.peakMiB(), "MiB")
				}
			})
		}
	}
}

// asyncLimit publishes n messages asynchronously, removes them, and returns how many there
// were a second.
func asyncLimit(b *testing.B, bus *bustest.Server, n int) float64 {
	b.Helper()
	js := bus.JetStream(bustest.Admin, jetstream.WithPublishAsyncMaxPending(4000), jetstream.WithPublishAsyncTimeout(time.Minute))
	payload := make([]byte, 600)
	began := time.Now()
	for i := range n {
		m := nats.NewMsg(fmt.Sprintf("booking.v1.confirmed.room-%d.limit-%d", i%100, i))
		m.Header.Set(jetstream.MsgIDHeader, fmt.Sprintf("limit-%d", i))
		m.Data = payload
		if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	rate := float64(n) / time.Since(began).Seconds()
	stream, err := js.Stream(b.Context(), topology.Bookings)
	if err != nil {
		b.Fatal(err)
	}
	if have := stream.CachedInfo().State.Msgs; have != uint64(n) {
		b.Fatalf("%d of %d messages", have, n)
	}
	if err := stream.Purge(b.Context()); err != nil {
		b.Fatal(err)
	}
	return rate
}

// fill writes n rows of as many bookings, whose numbers begin with from.
func fill(b *testing.B, db *dbtest.DB, from, n int, published bool) {
	b.Helper()
	if n == 0 {
		return
	}
	_, err := db.Admin.Exec(b.Context(), `
		insert into booking.outbox_events (key, subject, message_id, payload, published_at)
		select id, 'booking.v1.confirmed.room-' || n % 100 || '.' || id, 'booking-' || id || '-v1',
		       convert_to(repeat('x', 600), 'utf8'), case when $3 then now() end
		from generate_series($1::int, $1::int + $2 - 1) n, lateral (select '0192a4e0-0000-7000-8000-' || lpad(to_hex(n), 12, '0')) as i (id)`,
		from, n, published)
	if err != nil {
		b.Fatal(err)
	}
	if published { // as autovacuum would have left them
		if _, err := db.Admin.Exec(b.Context(), `vacuum analyze booking.outbox_events`); err != nil {
			b.Fatal(err)
		}
	}
}
