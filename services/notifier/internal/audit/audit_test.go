package audit_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/services/notifier/internal/audit"
	"github.com/slotwise/slotwise/services/notifier/internal/plan"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/seed"
	"go.uber.org/zap/zaptest"
)

// old is older than the two minutes at which a pass stops.
const old = 3 * time.Minute

// world is PostgreSQL alone: there is no NATS in it.
type world struct {
	t        *testing.T
	db       *dbtest.DB
	bookings *seed.Seed
	log      *sendlog.Log
	audit    *audit.Audit
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db := dbtest.New(t)
	pool := db.Pool("slotwise_notifier")
	log := sendlog.New(pool, sendlog.DefaultTimes())
	w := &world{
		t: t, db: db, bookings: seed.New(t, db.Admin), log: log,
		audit: audit.New(pool, log, sendlog.DefaultTimes(), zaptest.NewLogger(t)),
	}
	w.bookings.Resource(seed.Resource{ID: "room-7"})
	return w
}

func (w *world) pass() {
	w.t.Helper()
	if err := w.audit.Pass(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) exec(sql string, arguments ...any) {
	w.t.Helper()
	if _, err := w.db.Admin.Exec(w.t.Context(), sql, arguments...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) number(sql string) (n int64) {
	w.t.Helper()
	if err := w.db.Admin.QueryRow(w.t.Context(), sql).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) mark() int64 {
	return w.number(`select mark from notifier.progress where name = 'audit'`)
}

func (w *world) wantKeys(want ...string) {
	w.t.Helper()
	rows, _ := w.db.Admin.Query(w.t.Context(), `select key from notifier.send_log`)
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Sort(keys)
	slices.Sort(want)
	if !slices.Equal(keys, want) {
		w.t.Errorf("planned %q\nwant    %q", keys, want)
	}
}

// counted returns slotwise_audit_planned_total by kind.
func counted(t *testing.T, a *audit.Audit) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(a)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "slotwise_audit_planned_total" {
				counts[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return counts
}

func confirm(b seed.Booking) string {
	return id.Mail{Kind: "confirm", Booking: b.ID, Version: 1}.String()
}

func TestPassPlansWhatNobodyPlanned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	planned := w.bookings.Book(seed.Booking{Resource: "room-7", Age: old})
	if _, err := w.log.Plan(t.Context(), plan.Owed(planned.Event)); err != nil {
		t.Fatal(err)
	}
	lost := w.bookings.Book(seed.Booking{Resource: "room-7", Age: old})
	w.pass()
	w.wantKeys(confirm(planned), confirm(lost))
	if got := counted(t, w.audit); got["confirm"] != 1 || got["reminder"] != 0 || got["webhook"] != 0 || len(got) != 6 {
		t.Errorf("counted %v, want one confirm: the other was not lost", got)
	}
	w.pass()
	if got := counted(t, w.audit); got["confirm"] != 1 {
		t.Errorf("counted %v after a pass that had nothing to do", got)
	}
}

// A pass stops at the first young row, whatever comes behind it: a row with a lower id may
// still be uncommitted.
func TestPassStopsAtTheFirstYoungRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.bookings.Book(seed.Booking{Resource: "room-7", Age: old})
	mark := w.number(`select max(id) from booking.outbox_events`)
	w.bookings.Book(seed.Booking{Resource: "room-7", Age: time.Minute})
	w.bookings.Book(seed.Booking{Resource: "room-7", Age: old})
	w.pass()
	w.wantKeys(confirm(first))
	if got := w.mark(); got != mark {
		t.Errorf("mark = %d, want %d", got, mark)
	}
	w.audit.Chunk(100)
	fill(w, 150) // old ones behind the young one, more than a chunk
	w.pass()
	if got := w.mark(); got != mark {
		t.Errorf("mark = %d, want %d", got, mark)
	}
	w.exec(`update booking.outbox_events set created_at = created_at - interval '3 minutes'`)
	w.pass()
	if n := w.number(`select count(*) from notifier.send_log`); n != 153 {
		t.Errorf("%d rows once all are old, want 153", n)
	}
}

// B1: a row that becomes visible behind the mark, later than any transaction should live, is
// found when the mark goes back.
func TestB1MarkGoesBackEveryHour(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow, err := w.db.Admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := w.bookings.Book(seed.Booking{Resource: "room-7", Age: old})
	// What the slow transaction has written: the same row with a lower id.
	w.exec(`delete from booking.outbox_events`)
	body, err := late.Event.Encode()
	if err != nil {
		t.Fatal(err)
	}
	_, err = slow.Exec(t.Context(), `insert into booking.outbox_events (key, subject, message_id, payload, created_at) values ($1, $2, $3, $4, $5)`,
		late.ID, late.Event.NATSSubject(), late.Event.ID, body, late.Event.Time)
	if err != nil {
		t.Fatal(err)
	}
	fast := w.bookings.Book(seed.Booking{Resource: "room-7", Age: old})
	w.pass()
	w.wantKeys(confirm(fast))
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.pass()
	w.wantKeys(confirm(fast))
	w.exec(`update notifier.progress set rewound_at = rewound_at - interval '1 hour'`)
	w.pass()
	w.wantKeys(confirm(fast), confirm(late))
	if top := w.number(`select max(id) from booking.outbox_events`); w.mark() != top {
		t.Errorf("mark = %d, want %d: it went back and came forward again", w.mark(), top)
	}
	if n := w.number(`select rewind_mark from notifier.progress where name = 'audit'`); n != w.mark() {
		t.Errorf("the next time it goes back to %d, want %d", n, w.mark())
	}
}

// A mark that has not come back to where it was does not jump forward.
func TestMarkThatIsBehindIsNotMovedForward(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`update notifier.progress set mark = 5, rewind_mark = 9, rewound_at = rewound_at - interval '1 hour'`)
	w.pass()
	if got := w.mark(); got != 5 {
		t.Errorf("mark = %d, want 5", got)
	}
}

func TestB46UnreadableEventIsHeldAndTheMarkGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`
		insert into booking.outbox_events (key, subject, message_id, payload, created_at)
		values ('k', 'booking.v1.changed.room-7.00000000-0000-4000-8000-000000000000', 'booking-x-v1', $1, clock_timestamp() - interval '3 minutes')`,
		make([]byte, 65_536))
	good := w.bookings.Book(seed.Booking{Resource: "room-7", Age: old})
	w.pass()
	w.wantKeys(id.Unreadable("booking-x-v1"), confirm(good))
	if n := w.number(`select count(*) from notifier.send_log where state = 'held' and channel = 'event' and reason is not null`); n != 1 {
		t.Errorf("%d held rows, want 1", n)
	}
	if w.mark() != w.number(`select max(id) from booking.outbox_events`) {
		t.Error("the mark stands before the unreadable row")
	}
}

// More rows than one transaction takes; the catch-up after a long time without the notifier.
func TestPassTakesChunksUntilAllIsPlanned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const rows = 550
	w.audit.Chunk(100)
	fill(w, rows)
	w.pass()
	if n := w.number(`select count(*) from notifier.send_log`); n != rows {
		t.Errorf("%d rows planned, want %d", n, rows)
	}
	if w.mark() != w.number(`select max(id) from booking.outbox_events`) {
		t.Error("the mark is not at the end")
	}
	if n := w.number(`select extract(epoch from clock_timestamp() - passed_at)::bigint from notifier.progress where name = 'audit'`); n > 60 {
		t.Errorf("the pass ended %d s ago", n)
	}
}

// fill writes old outbox rows without their bookings.
func fill(w *world, rows int) {
	w.t.Helper()
	w.exec(`
		insert into booking.outbox_events (key, subject, message_id, payload, created_at)
		select b, 'booking.v1.confirmed.room-7.' || b, 'booking-' || b || '-v1',
		       convert_to(format('{"specversion":"1.0","id":"booking-%s-v1","source":"/slotwise/booking","type":"booking.v1.confirmed","subject":"%s",'
		           '"time":"2026-12-01T09:00:00Z","datacontenttype":"application/json","data":{"booking":"%s","version":1,"start_version":1,"told_customer":1,'
		           '"told_host":0,"status":"confirmed","resource":"room-7","start":"2026-12-03T13:00:00Z","end":"2026-12-03T14:00:00Z","zone":"Europe/Berlin",'
		           '"seats":1,"changed":["start"]}}', variadic array_fill(b, array[3])), 'utf8'),
		       clock_timestamp() - interval '1 hour'
		from (select gen_random_uuid()::text as b from generate_series(1, $1)) u`, rows)
}

func TestB23ReplicasTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lost := w.bookings.Book(seed.Booking{Resource: "room-7", Age: old})
	turn, err := w.db.Admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := turn.Exec(t.Context(), `select from notifier.progress for update`); err != nil {
		t.Fatal(err)
	}
	w.pass()
	w.wantKeys()
	if err := turn.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.pass()
	w.wantKeys(confirm(lost))
}

func TestB23TwoReplicasCountEachLossOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const rows = 600
	fill(w, rows)
	pool := w.db.Pool("slotwise_notifier")
	replicas := []*audit.Audit{w.audit, audit.New(pool, w.log, sendlog.DefaultTimes(), zaptest.NewLogger(t))}
	var wg sync.WaitGroup
	for _, replica := range replicas {
		replica.Chunk(50)
		wg.Go(func() {
			for range 5 {
				if err := replica.Pass(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	sum := counted(t, replicas[0])["confirm"] + counted(t, replicas[1])["confirm"]
	if n := w.number(`select count(*) from notifier.send_log`); n != rows || sum != rows {
		t.Errorf("%d rows planned and %.0f counted, want %d", n, sum, rows)
	}
}

func TestB36PassFailsWithItsDatabaseAndGoesOnLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lost := w.bookings.Book(seed.Booking{Resource: "room-7", Age: old})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.audit.Pass(ctx); err == nil {
		t.Error("a pass without a database succeeds")
	}
	w.wantKeys()
	if err := w.audit.Alive(t.Context()); err != nil {
		t.Errorf("Alive after a pass that failed = %v: a restart would not help", err)
	}
	w.pass()
	w.wantKeys(confirm(lost))
}

func TestB145LoopThatHangsIsNotAlive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.audit.Alive(t.Context()); err != nil {
		t.Errorf("Alive before the first pass = %v", err)
	}
	w.audit.Hang(5 * time.Minute)
	if err := w.audit.Alive(t.Context()); err != nil {
		t.Errorf("Alive after a long pass = %v", err)
	}
	w.audit.Hang(6 * time.Minute)
	if err := w.audit.Alive(t.Context()); err == nil {
		t.Error("Alive although nothing was audited for six minutes")
	}
	w.pass()
	if err := w.audit.Alive(t.Context()); err != nil {
		t.Errorf("Alive after a pass = %v", err)
	}
}

// B29: behind a pooler in transaction mode nothing may be prepared.
func TestB29ExecModes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, mode := range dbtest.ExecModes() {
		config := w.db.Pool("slotwise_notifier").Config()
		config.ConnConfig.DefaultQueryExecMode = mode
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		w.audit = audit.New(pool, sendlog.New(pool, sendlog.DefaultTimes()), sendlog.DefaultTimes(), zaptest.NewLogger(t))
		w.exec(`update notifier.progress set rewound_at = rewound_at - interval '1 hour'`)
		w.bookings.Book(seed.Booking{Resource: "room-7", Age: old, Lead: 47 * time.Hour, Start: time.Now().Add(46 * time.Hour)})
		w.pass()
		counts := counted(t, w.audit)
		if counts["confirm"] != 1 || counts["reminder"] != 1 {
			t.Errorf("%s: counted %v", mode, counts)
		}
		pool.Close()
	}
}
