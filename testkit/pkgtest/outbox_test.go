package pkgtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slotwise/slotwise/pkg/outbox"
	"github.com/slotwise/slotwise/testkit/dbtest"
)

const bookingOutbox = "booking.outbox_events"

func table(t *testing.T) outbox.Table {
	t.Helper()
	table, err := outbox.In(bookingOutbox)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func row(n, version int) outbox.Event {
	booking := fmt.Sprintf("0192a4e0-0000-7000-8000-%012x", n)
	return outbox.Event{
		Key: booking, Subject: "booking.v1.changed.room-7." + booking, MessageID: fmt.Sprintf("booking-%s-v%d", booking, version),
		Headers: map[string]string{"traceparent": "00-x"}, Payload: []byte("{}"),
	}
}

func write(t *testing.T, pool *pgxpool.Pool, events ...outbox.Event) error {
	t.Helper()
	batch := &pgx.Batch{}
	for _, e := range events {
		table(t).Queue(batch, e)
	}
	return pool.SendBatch(t.Context(), batch).Close()
}

// claim runs do with what a claim returns, in its transaction.
func claim(t *testing.T, pool *pgxpool.Pool, limit int, do func(ctx context.Context, tx pgx.Tx, rows []outbox.Row) error) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		rows, err := table(t).Claim(t.Context(), tx, limit)
		if err != nil {
			return err
		}
		return do(t.Context(), tx, rows)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func names(rows []outbox.Row) string {
	var all []string
	for _, r := range rows {
		all = append(all, strings.TrimLeft(r.Key[24:], "0")+strings.TrimPrefix(r.MessageID, "booking-"+r.Key+"-"))
	}
	return strings.Join(all, " ")
}

// B29: a row's whole life, in every way to send statements.
func TestB29OutboxInEveryExecMode(t *testing.T) {
	t.Parallel()
	for _, mode := range dbtest.ExecModes() {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			db := dbtest.New(t)
			open := func(role string) *pgxpool.Pool {
				config, err := pgxpool.ParseConfig(db.URL(role))
				if err != nil {
					t.Fatal(err)
				}
				config.ConnConfig.DefaultQueryExecMode = mode
				pool, err := pgxpool.NewWithConfig(t.Context(), config)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(pool.Close)
				return pool
			}
			relay := open("slotwise_relay")
			if err := write(t, open("slotwise_booking"), row(1, 1), row(1, 2), row(2, 1), row(3, 1)); err != nil {
				t.Fatal(err)
			}
			claim(t, relay, 10, func(ctx context.Context, tx pgx.Tx, rows []outbox.Row) error {
				if got := names(rows); got != "1v1 2v1 3v1" {
					t.Errorf("claimed %s", got)
				}
				if r := rows[0]; r.Headers["traceparent"] != "00-x" || string(r.Payload) != "{}" || r.Attempts != 0 || time.Since(r.CreatedAt) > time.Minute {
					t.Errorf("row %+v", r)
				}
				if err := table(t).Published(ctx, tx, []int64{rows[0].ID}); err != nil {
					return err
				}
				if err := table(t).Refused(ctx, tx, rows[1].ID, "too large", time.Hour); err != nil {
					return err
				}
				return table(t).Park(ctx, tx, rows[2].ID, "much too large")
			})
			backlog, err := table(t).Backlog(t.Context(), relay)
			if err != nil || backlog.Waiting != 2 || backlog.Parked != 1 || backlog.Oldest <= 0 {
				t.Errorf("backlog %+v, %v", backlog, err)
			}
			parked, err := table(t).Parked(t.Context(), relay, 10)
			if err != nil || len(parked) != 1 || parked[0].Reason != "much too large" || parked[0].Attempts != 1 {
				t.Errorf("parked %+v, %v", parked, err)
			}
			if n, err := table(t).Unpark(t.Context(), relay, parked[0].ID+1); n != 0 || err != nil {
				t.Errorf("unparked another: %d, %v", n, err)
			}
			if n, err := table(t).Unpark(t.Context(), relay); n != 1 || err != nil {
				t.Errorf("unparked %d, %v", n, err)
			}
			claim(t, relay, 10, func(_ context.Context, _ pgx.Tx, rows []outbox.Row) error {
				if got := names(rows); got != "3v1 1v2" && got != "1v2 3v1" { // 2v1 waits for an hour
					t.Errorf("then claimed %s", got)
				}
				return nil
			})
		})
	}
}

// Two claims at once share the rows; a key's next row waits for the end of the claim.
func TestClaimsShare(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	if err := write(t, db.Pool("slotwise_booking"), row(1, 1), row(2, 1), row(1, 2), row(3, 1)); err != nil {
		t.Fatal(err)
	}
	pool := db.Pool("slotwise_relay")
	claim(t, pool, 2, func(ctx context.Context, tx pgx.Tx, mine []outbox.Row) error {
		if got := names(mine); got != "1v1 2v1" {
			t.Errorf("the first claimed %s", got)
		}
		claim(t, pool, 10, func(_ context.Context, _ pgx.Tx, theirs []outbox.Row) error {
			if got := names(theirs); got != "3v1" {
				t.Errorf("the second claimed %s", got)
			}
			return nil
		})
		return table(t).Published(ctx, tx, []int64{mine[0].ID})
	})
	claim(t, pool, 10, func(_ context.Context, _ pgx.Tx, rows []outbox.Row) error {
		if got := names(rows); got != "2v1 1v2 3v1" {
			t.Errorf("then %s", got)
		}
		return nil
	})
}

// B7: with many published rows a claim reads those that wait and no others, whatever the
// planner believes: statistics from when nothing waited, or from when much did.
func TestB7ClaimReadsTheWaitingOnly(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	fill := func(from, n int, published bool) {
		t.Helper()
		if _, err := db.Admin.Exec(t.Context(), `
			insert into booking.outbox_events (key, subject, message_id, payload, published_at)
			select id, 'booking.v1.changed.room-7.' || id, 'booking-' || id || '-v1', '{}', case when $3 then now() end
			from generate_series($1::int, $1::int + $2 - 1) n, lateral (select '0192a4e0-0000-7000-8000-' || lpad(to_hex(n), 12, '0')) as i (id)`,
			from, n, published); err != nil {
			t.Fatal(err)
		}
	}
	exec := func(sql string) {
		t.Helper()
		if _, err := db.Admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`alter table booking.outbox_events set (autovacuum_enabled = false)`) // statistics change when the test says
	const published, waiting = 100_000, 20_000
	fill(1, published, true)
	exec(`vacuum analyze booking.outbox_events`)
	fill(published+1, waiting, false)
	for _, statistics := range []string{"from when nothing waited", "of now"} {
		for _, limit := range []int{1, 10, 500} {
			plan, buffers := explainClaim(t, db, limit)
			if strings.Contains(plan, "Seq Scan") || !strings.Contains(plan, "Index Scan using outbox_events_waiting on") || !strings.Contains(plan, "using outbox_events_waiting_key on") {
				t.Errorf("statistics %s, limit %d:\n%s", statistics, limit, plan)
			}
			if buffers > 50+10*limit {
				t.Errorf("statistics %s, limit %d: %d pages:\n%s", statistics, limit, buffers, plan)
			}
		}
		exec(`analyze booking.outbox_events`)
	}
	// All but ten are published: the case's own figure is 5 ms with 5 000 000 published rows.
	exec(`update booking.outbox_events set published_at = now() where id <= (select max(id) - 10 from booking.outbox_events)`)
	exec(`vacuum booking.outbox_events`)
	best := time.Hour
	for range 20 {
		began := time.Now()
		claim(t, db.Pool("slotwise_relay"), 500, func(_ context.Context, _ pgx.Tx, rows []outbox.Row) error {
			if len(rows) != 10 {
				t.Errorf("claimed %d", len(rows))
			}
			return nil
		})
		best = min(best, time.Since(began))
	}
	t.Logf("a claim of 10 took %s", best)
	if best > 5*time.Millisecond {
		t.Errorf("a claim of 10 took %s", best)
	}
}

// explaining is a transaction that explains each query before it runs it.
type explaining struct {
	pgx.Tx
	plan    string
	buffers int
}

func (e *explaining) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := e.Tx.Query(ctx, "explain (analyze, buffers, costs off) "+sql, args...)
	if err != nil {
		return nil, err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	e.plan = strings.Join(lines, "\n")
	for _, line := range lines {
		if strings.Contains(line, "Buffers:") { // the first is the whole query's
			for field := range strings.FieldsSeq(line) {
				var n int
				if _, err := fmt.Sscanf(field, "hit=%d", &n); err == nil {
					e.buffers += n
				}
				if _, err := fmt.Sscanf(field, "read=%d", &n); err == nil {
					e.buffers += n
				}
			}
			break
		}
	}
	return e.Tx.Query(ctx, sql, args...) //nolint:rowserrcheck // whoever reads the rows does
}

func explainClaim(t *testing.T, db *dbtest.DB, limit int) (plan string, buffers int) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), db.Pool("slotwise_relay"), func(tx pgx.Tx) error {
		e := &explaining{Tx: tx}
		_, err := table(t).Claim(t.Context(), e, limit)
		plan, buffers = e.plan, e.buffers
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan, buffers
}

// What can't be published can't be written.
func TestOutboxRefusesWhatNoStreamTakes(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	pool := db.Pool("slotwise_booking")
	for name, change := range map[string]func(*outbox.Event){
		"unknown type":        func(e *outbox.Event) { e.Subject = strings.Replace(e.Subject, "changed", "moved", 1) },
		"another version":     func(e *outbox.Event) { e.Subject = strings.Replace(e.Subject, "v1", "v2", 1) },
		"a token too few":     func(e *outbox.Event) { e.Subject = "booking.v1.changed.room-7" },
		"a token too many":    func(e *outbox.Event) { e.Subject += ".x" },
		"an empty token":      func(e *outbox.Event) { e.Subject = "booking.v1.changed..x" },
		"an empty last token": func(e *outbox.Event) { e.Subject = "booking.v1.changed.room-7." },
		"a wildcard":          func(e *outbox.Event) { e.Subject = "booking.v1.changed.*.x" },
		"all wildcards":       func(e *outbox.Event) { e.Subject = "booking.v1.changed.>" },
		"a space":             func(e *outbox.Event) { e.Subject = "booking.v1.changed.room 7.x" },
		"a line break":        func(e *outbox.Event) { e.Subject += "\n" },
		"too long a subject":  func(e *outbox.Event) { e.Subject += strings.Repeat("a", 100) },
		"no id":               func(e *outbox.Event) { e.MessageID = "" },
		"an id with a dot":    func(e *outbox.Event) { e.MessageID = "a.b" },
		"an id with a break":  func(e *outbox.Event) { e.MessageID += "\n" },
		"too long an id":      func(e *outbox.Event) { e.MessageID = strings.Repeat("a", 201) },
		"no payload":          func(e *outbox.Event) { e.Payload = []byte{} },
		"too large a payload": func(e *outbox.Event) { e.Payload = make([]byte, 65537) },
		"too large headers":   func(e *outbox.Event) { e.Headers["x"] = strings.Repeat("a", 5000) },
		"no key":              func(e *outbox.Event) { e.Key = "" },
	} {
		e := row(1, 1)
		change(&e)
		if err := write(t, pool, e); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := db.Admin.Exec(t.Context(), `
		insert into booking.outbox_events (key, subject, message_id, headers, payload)
		values ('k', 'booking.v1.changed.room-7.x', 'm', '{"n": 1}', '{}')`); err == nil {
		t.Error("a header that is no string: accepted")
	}
	if err := write(t, pool, row(1, 1)); err != nil {
		t.Error(err)
	}
	if err := write(t, pool, row(1, 1)); err == nil {
		t.Error("one message id twice: accepted")
	}
	for _, name := range []string{"", "outbox", "a.b.c", "A.b", `a."b"`, "a.b;drop"} {
		if _, err := outbox.In(name); err == nil {
			t.Errorf("outbox %q is accepted", name)
		}
	}
}
