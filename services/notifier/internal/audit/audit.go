package audit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/failpoint"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/pkg/retry"
	"github.com/slotwise/slotwise/services/notifier/internal/plan"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"go.uber.org/zap"
)

// mostRows is how many rows one transaction plans at most: it takes well under a second.
const mostRows = 5000

// Audit is one replica's audit.
type Audit struct {
	pool    *pgxpool.Pool
	log     plan.Log
	times   sendlog.Times
	logger  *zap.Logger
	chunk   int // mostRows, or less in tests
	planned *prometheus.CounterVec
	beat    atomic.Pointer[time.Time] // when a transaction last ended, well or not
}

// New returns an audit that plans into log what pool's database owes.
func New(pool *pgxpool.Pool, log plan.Log, times sendlog.Times, logger *zap.Logger) *Audit {
	planned := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slotwise_audit_planned_total", Help: "Messages that the audit had to plan: the fast path has lost them.",
	}, []string{"kind"})
	for _, kind := range []sendlog.Kind{sendlog.Confirm, sendlog.Move, sendlog.Cancel, sendlog.Reminder, sendlog.Unreadable, sendlog.WebhookFor} {
		planned.WithLabelValues(string(kind)) // a counter that is not there can't be watched
	}
	return &Audit{pool: pool, log: log, times: times, logger: logger, chunk: mostRows, planned: planned}
}

// Run makes a pass at once and then one every [sendlog.Times.Audit], until ctx ends, and
// returns nil then. A pass that fails is logged and made again at its time.
func (a *Audit) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := a.Pass(ctx); err != nil && ctx.Err() == nil {
			a.logger.Warn("audit failed", zap.Error(err))
		}
		jitter := rand.N(a.times.Audit/10 + 1) //nolint:gosec // replicas that start together part
		retry.Sleep(ctx, a.times.Audit-jitter) //nolint:errcheck // the loop looks at the context
	}
	return nil
}

// Pass plans everything that is owed and not planned, as far as other replicas leave it to
// this one.
func (a *Audit) Pass(ctx context.Context) error {
	return errors.Join(a.repeat(ctx, a.reminders), a.repeat(ctx, a.events), a.repeat(ctx, a.released))
}

// repeat runs step until it has no more to do.
func (a *Audit) repeat(ctx context.Context, step func(context.Context) (more bool, err error)) error {
	for {
		more, err := step(ctx)
		now := time.Now()
		a.beat.Store(&now)
		if err != nil || !more {
			return err
		}
	}
}

const unplannedSQL = `
	select k.key
	from unnest($1::text[]) as k (key)
	where not exists (select from notifier.send_log s where s.key = k.key offset 0)`

// plan writes what is owed, and counts and tells what nobody had planned. Nearly always that
// is nothing, so it looks before it writes: a tenth of the cost.
//
// What events owe endpoints is looked for and written by one statement: which endpoints those
// are, only the database knows.
func (a *Audit) plan(ctx context.Context, tx pgx.Tx, owed []sendlog.Message, told []sendlog.Announcement) (inserted int, err error) {
	messages, all := map[string]sendlog.Message{}, make([]string, len(owed))
	for i, m := range owed {
		messages[m.Key], all[i] = m, m.Key
	}
	rows, _ := tx.Query(ctx, unplannedSQL, all) // the collector reports this error too
	unplanned, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return 0, fmt.Errorf("look for rows: %w", err)
	}
	owed = owed[:0]
	for _, key := range unplanned {
		owed = append(owed, messages[key])
	}
	keys, err := a.log.PlanEvents(ctx, owed, told)
	if err != nil {
		return 0, fmt.Errorf("plan what was found: %w", err)
	}
	if len(keys) == 0 {
		return 0, nil
	}
	for _, key := range keys {
		m, mail := messages[key]
		if !mail {
			m.Kind = sendlog.WebhookFor
		}
		a.planned.WithLabelValues(string(m.Kind)).Inc()
		if m.State == sendlog.Held {
			a.logger.Error("event held", zap.String("key", m.Key), zap.String("reason", m.Reason))
		}
	}
	a.logger.Warn("audit planned what was lost", zap.Int("messages", len(keys)), zap.String("first", keys[0]))
	failpoint.Hit("audit.planned")
	return len(keys), nil
}

// Alive is a liveness check: it fails when the loop hangs. Passes that fail do not: another
// process would not bring PostgreSQL back.
func (a *Audit) Alive(context.Context) error {
	last := a.beat.Load()
	if limit := 5*a.times.Audit + 2*pgdb.TxTimeout; last != nil && time.Since(*last) > limit {
		return fmt.Errorf("nothing was audited for %s", time.Since(*last).Round(time.Second))
	}
	return nil
}
