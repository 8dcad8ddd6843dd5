package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/outbox"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/dbtest"
)

// BenchmarkRelay relays 100 000 rows of 600 bytes with the binary as it ships, in both of
// nats-server's sync modes, and compares its rate with what the same server takes from an
// asynchronous publisher just before. The relay runs, and waits, when all rows appear by one commit.
//
// RELAY_ settings of the environment reach the relay.
func BenchmarkRelay(b *testing.B) {
	if _, err := build(); err != nil { // not while it is measured
		b.Fatal(err)
	}
	const rows = 100_000
	for _, mode := range []struct {
		name    string
		options []bustest.Option
	}{{"default", nil}, {"always", []bustest.Option{bustest.SyncAlways()}}} {
		b.Run("sync="+mode.name, func(b *testing.B) {
			for b.Loop() {
				db, bus := dbtest.New(b), bustest.New(b, mode.options...)
				db.Durable()
				declare(b, bus)
				limit := asyncLimit(b, bus, rows)
				p := start(b, db, bus, append([]string{"RELAY_POLL=100ms"}, relaySettings()...)...)
				eventually(b, "ready", func() bool { status, _ := p.get("/readyz"); return status == http.StatusOK })

				appear := fillLater(b, db, rows)
				began := time.Now()
				appear()
				// Counting what waits costs as much as relaying it: not before all is stored.
				eventually(b, "all stored", func() bool { return bus.Messages(b.Context(), topology.Bookings) == rows })
				eventually(b, "all marked", func() bool { return waiting(b, db) == 0 })
				rate := rows / time.Since(began).Seconds()
				if n := bus.Messages(b.Context(), topology.Bookings); n != rows {
					b.Fatalf("%d messages", n)
				}
				b.ReportMetric(backendCPU(b, db).Seconds()/rows*1e6, "postgres-cpu-µs/event")
				peak := p.peakMiB()
				p.signal(syscall.SIGTERM)
				if err := p.wait(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(rate, "events/s")
				b.ReportMetric(limit, "async-limit/s")
				b.ReportMetric(rate/limit, "ratio")
				b.ReportMetric(peak, "MiB")
				b.ReportMetric((p.ProcessState.UserTime()+p.ProcessState.SystemTime()).Seconds()/rows*1e6, "relay-cpu-µs/event")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// BenchmarkClaim claims and marks 50 000 rows, 500 at a time, behind many published rows, and
// with an old snapshot held open, which keeps vacuum from removing dead index entries.
func BenchmarkClaim(b *testing.B) {
	const rows, batch = 50_000, 500
	for _, c := range []struct {
		published int
		snapshot  bool
	}{{0, false}, {5_000_000, false}, {0, true}} {
		b.Run(fmt.Sprintf("published=%d/old-snapshot=%t", c.published, c.snapshot), func(b *testing.B) {
			table, err := outbox.In("booking.outbox_events")
			if err != nil {
				b.Fatal(err)
			}
			db := dbtest.New(b)
			db.Durable()
			fill(b, db, 1, c.published, true)
			if c.snapshot {
				hold(b, db)
			}
			for next := c.published + 1; b.Loop(); next += rows {
				fill(b, db, next, rows, false)
				before := backendCPU(b, db)
				claims := claimAll(b, db, table, batch)
				b.ReportMetric((backendCPU(b, db)-before).Seconds()/rows*1e6, "postgres-cpu-µs/row")
				var total time.Duration
				for _, took := range claims {
					total += took
				}
				slices.Sort(claims)
				b.ReportMetric(rows/total.Seconds(), "rows/s")
				b.ReportMetric(float64(claims[len(claims)/2].Microseconds())/1000, "median-ms")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// claimAll claims and marks until nothing waits, and returns how long each claim took.
func claimAll(b *testing.B, db *dbtest.DB, table outbox.Table, batch int) (claims []time.Duration) {
	b.Helper()
	for claimed := batch; claimed == batch; {
		began := time.Now()
		err := pgx.BeginFunc(b.Context(), db.Pool("slotwise_relay"), func(tx pgx.Tx) error {
			rows, err := table.Claim(b.Context(), tx, batch)
			if err != nil {
				return err
			}
			ids := make([]int64, len(rows))
			for i, row := range rows {
				ids[i] = row.ID
			}
			claimed = len(rows)
			return table.Published(b.Context(), tx, ids)
		})
		if err != nil {
			b.Fatal(err)
		}
		claims = append(claims, time.Since(began))
	}
	return claims
}

// backendCPU is the CPU time of the backends that the relay's role has open. Unlike rates, it
// means something on a busy machine.
func backendCPU(b *testing.B, db *dbtest.DB) (total time.Duration) {
	b.Helper()
	rows, err := db.Admin.Query(b.Context(), `select pid from pg_stat_activity where usename = 'slotwise_relay' and datname = current_database()`)
	if err != nil {
		b.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		b.Fatal(err)
	}
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Fatal(err)
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		for _, ticks := range fields[11:13] { // utime and stime, in hundredths of a second
			n, err := strconv.Atoi(ticks)
			if err != nil {
				b.Fatal(err)
			}
			total += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return total
}

// hold keeps a snapshot of now until the end of b.
func hold(b *testing.B, db *dbtest.DB) {
	b.Helper()
	tx, err := db.Admin.BeginTx(b.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := tx.Exec(b.Context(), `select count(*) from booking.bookings`); err != nil {
		b.Fatal(err)
	}
	ctx := context.WithoutCancel(b.Context())
	b.Cleanup(func() { tx.Rollback(ctx) }) //nolint:errcheck // its database goes
}

func relaySettings() (all []string) {
	for _, pair := range os.Environ() {
		if strings.HasPrefix(pair, "RELAY_") {
			all = append(all, pair)
		}
	}
	return all
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
	insertRows(b, db.Admin, from, n, published)
	settle := []string{`checkpoint`} // not while it is measured
	if published {
		settle = []string{`vacuum analyze booking.outbox_events`, `checkpoint`} // as autovacuum leaves them
	}
	for _, sql := range settle {
		if _, err := db.Admin.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
}

// fillLater writes n rows, which appear to others when commit is called.
func fillLater(b *testing.B, db *dbtest.DB, n int) (commit func()) {
	b.Helper()
	tx, err := db.Admin.Begin(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	insertRows(b, tx, 1, n, false)
	if _, err := db.Admin.Exec(b.Context(), `checkpoint`); err != nil {
		b.Fatal(err)
	}
	return func() {
		if err := tx.Commit(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func insertRows(b *testing.B, into execer, from, n int, published bool) {
	b.Helper()
	_, err := into.Exec(b.Context(), `
		insert into booking.outbox_events (key, subject, message_id, payload, published_at)
		select id, 'booking.v1.confirmed.room-' || n % 100 || '.' || id, 'booking-' || id || '-v1',
		       convert_to(repeat('x', 600), 'utf8'), case when $3 then now() end
		from generate_series($1::int, $1::int + $2 - 1) n, lateral (select '0192a4e0-0000-7000-8000-' || lpad(to_hex(n), 12, '0')) as i (id)`,
		from, n, published)
	if err != nil {
		b.Fatal(err)
	}
}
