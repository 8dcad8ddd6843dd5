// Package retention deletes what the booking service keeps for a while: outbox rows that were
// published 7 days ago and that the notifier's audit has passed, and idempotency keys after
// 24 hours. It works in small statements under a lock that is only tried, so that bookings
// don't notice and several services don't meet.
package retention

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/pkg/retry"
	"go.uber.org/zap"
)

const (
	keepKeys   = 24 * time.Hour
	keepEvents = 7 * 24 * time.Hour
	page       = 5000 // rows a statement looks at: 18 ms, measured
	breath     = 100 * time.Millisecond
)

// Loop deletes every Every what has become old.
type Loop struct {
	DB      *pgxpool.Pool
	Log     *zap.Logger
	Every   time.Duration
	Deleted *prometheus.CounterVec // by table; see [NewDeleted]
}

// NewDeleted registers the count of deleted rows.
func NewDeleted(registry prometheus.Registerer) *prometheus.CounterVec {
	deleted := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slotwise_rows_deleted_total", Help: "Rows deleted because they were old enough.",
	}, []string{"table"})
	registry.MustRegister(deleted)
	return deleted
}

// Run passes until ctx ends. A pass that fails is logged and made again at its time.
func (l Loop) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := l.Pass(ctx); err != nil && ctx.Err() == nil {
			l.Log.Warn("old rows are not deleted", zap.Error(err), zap.Duration("wait", l.Every))
		}
		retry.Sleep(ctx, l.Every) //nolint:errcheck // the loop's condition
	}
	return nil
}

// Pass deletes everything that is old enough, unless another service is at it.
func (l Loop) Pass(ctx context.Context) error {
	for _, pass := range []func(context.Context) error{l.keys, l.events} {
		if err := pass(ctx); err != nil {
			return err
		}
	}
	return nil
}

const tryLock = `select pg_try_advisory_xact_lock(hashtextextended('slotwise retention of booking', 0))`

// statement runs sql in a transaction of its own, if the lock is free.
func (l Loop) statement(ctx context.Context, sql string, args []any, into ...any) (mine bool, err error) {
	err = pgdb.InTx(ctx, l.DB, func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, tryLock).Scan(&mine); err != nil || !mine {
			return err
		}
		return tx.QueryRow(ctx, sql, args...).Scan(into...)
	})
	return mine, err
}

const deleteKeys = `
	with old as (
	    select key from booking.idempotency_keys
	    where created_at < clock_timestamp() - $1::interval
	    order by created_at
	    limit $2::int
	), gone as (
	    delete from booking.idempotency_keys k using old where k.key = old.key
	    returning k.key
	)
	select count(*) from gone`

func (l Loop) keys(ctx context.Context) error {
	for {
		var gone int
		mine, err := l.statement(ctx, deleteKeys, []any{keepKeys, page}, &gone)
		if err != nil {
			return fmt.Errorf("delete idempotency keys: %w", err)
		}
		l.Deleted.WithLabelValues("idempotency_keys").Add(float64(gone))
		if !mine || gone < page {
			return nil
		}
		if err := retry.Sleep(ctx, breath); err != nil {
			return err
		}
	}
}

//go:embed events.sql
var deleteEvents string

// events walks the outbox by id, a page at a time, up to the first row that is too young. Old
// rows that may not go yet are walked over.
func (l Loop) events(ctx context.Context) error {
	for after := int64(0); ; {
		var gone, last int64
		var more bool
		mine, err := l.statement(ctx, deleteEvents, []any{after, keepEvents, page}, &gone, &last, &more)
		if err != nil {
			return fmt.Errorf("delete outbox rows: %w", err)
		}
		l.Deleted.WithLabelValues("outbox_events").Add(float64(gone))
		if !mine || !more {
			return nil
		}
		after = last
		if err := retry.Sleep(ctx, breath); err != nil {
			return err
		}
	}
}
