package retention_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/slotwise/slotwise/services/booking/internal/retention"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"go.uber.org/zap/zaptest"
)

func loop(t *testing.T, db *dbtest.DB) retention.Loop {
	t.Helper()
	return retention.Loop{
		DB: db.Pool("slotwise_booking"), Log: zaptest.NewLogger(t), Every: time.Hour,
		Deleted: retention.NewDeleted(prometheus.NewRegistry()),
	}
}

func exec(t *testing.T, db *dbtest.DB, sql string) {
	t.Helper()
	if _, err := db.Admin.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, db *dbtest.DB, sql string) (n int) {
	t.Helper()
	if err := db.Admin.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// outbox adds n rows that were created and published so long ago.
const outbox = `
	insert into booking.outbox_events (key, subject, message_id, payload, created_at, published_at)
	select 'k', 'booking.v1.confirmed.room.01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f', 'm-' || gen_random_uuid(), 'p', `

// B10: only what was published a week ago and has been audited goes; what waits or is parked
// stays, however old it is.
func TestB10OnlyPublishedAndAudited(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	const old, young = `now() - interval '8 days', `, `now() - interval '6 days', `
	exec(t, db, outbox+old+`now() - interval '7 days 1 minute' from generate_series(1, 3)`) // go: 1 to 3
	exec(t, db, outbox+old+`null from generate_series(1, 2)`)                               // wait: 4, 5
	exec(t, db, outbox+old+`now() - interval '6 days 23 hours'`)                            // published late: 6
	exec(t, db, outbox+old+`now() - interval '8 days' from generate_series(1, 4)`)          // 7 to 10, of which 9 and 10 are not audited
	exec(t, db, outbox+young+`now() - interval '6 days'`)                                   // 11
	exec(t, db, `update booking.outbox_events set parked_at = now() where id = 5`)          //
	exec(t, db, `update notifier.progress set mark = 8 where name = 'audit'`)               //
	relay, err := db.Pool("slotwise_relay").Begin(t.Context())                              // holds what waits
	if err != nil {
		t.Fatal(err)
	}
	defer relay.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // only locks
	if _, err := relay.Exec(t.Context(), `select from booking.outbox_events where published_at is null for no key update`); err != nil {
		t.Fatal(err)
	}
	l := loop(t, db)
	for range 2 {
		if err := l.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, db, `select count(*) from booking.outbox_events where id not in (4, 5, 6, 9, 10, 11)`); n != 0 {
		t.Errorf("%d old rows are left", n)
	}
	if n := count(t, db, `select count(*) from booking.outbox_events`); n != 6 {
		t.Errorf("%d rows are left, want 6", n)
	}
	if n := testutil.ToFloat64(l.Deleted.WithLabelValues("outbox_events")); n != 5 {
		t.Errorf("counted %v", n)
	}
}

// Many rows go page by page, and old ones that stay are walked over.
func TestPages(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	exec(t, db, outbox+`now() - interval '9 days', null from generate_series(1, 6000)`)
	exec(t, db, outbox+`now() - interval '9 days', now() - interval '8 days' from generate_series(1, 11000)`)
	exec(t, db, `update notifier.progress set mark = 1000000`)
	exec(t, db, `insert into booking.idempotency_keys (key, fingerprint, status, header, body, created_at)
		select 'k' || n, '', 201, '{}', '', now() - n * interval '10 seconds' from generate_series(1, 15000) n`)
	if err := loop(t, db).Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, db, `select count(*) from booking.outbox_events`); n != 6000 {
		t.Errorf("%d rows are left", n)
	}
	if n := count(t, db, `select count(*) from booking.idempotency_keys`); n < 8630 || n > 8640 {
		t.Errorf("%d keys of the last 24 hours, want 8639", n)
	}
}

// Another service is at it: nobody waits.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	exec(t, db, `insert into booking.idempotency_keys (key, fingerprint, status, header, body, created_at) values ('k', '', 201, '{}', '', now() - interval '2 days')`)
	other, err := db.Pool("slotwise_booking").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // rolled back below
	if _, err := other.Exec(t.Context(), `select pg_advisory_xact_lock(hashtextextended('slotwise retention of booking', 0))`); err != nil {
		t.Fatal(err)
	}
	l := loop(t, db)
	if err := l.Pass(t.Context()); err != nil || count(t, db, `select count(*) from booking.idempotency_keys`) != 1 {
		t.Errorf("under somebody else's lock: %v", err)
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Pass(t.Context()); err != nil || count(t, db, `select count(*) from booking.idempotency_keys`) != 0 {
		t.Errorf("after it: %v", err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- loop(t, dbtest.New(t)).Run(ctx) }()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
