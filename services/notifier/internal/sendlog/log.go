package sendlog

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Log is the send log of one installation, as one process sees it. Its methods may be called
// from many goroutines.
type Log struct {
	pool  *pgxpool.Pool
	times Times
	woken chan struct{}
	hooks chan struct{}

	announces atomic.Bool // there was an endpoint when events were last planned here
}

// New returns the log in pool's database. The times must have passed [Times.Check].
func New(pool *pgxpool.Pool, times Times) *Log {
	return &Log{pool: pool, times: times, woken: make(chan struct{}, 1), hooks: make(chan struct{}, 1)}
}

// Times are the times that the log keeps to.
func (l *Log) Times() Times { return l.times }

// Woken receives after this process has planned rows or written results, or has said so with
// [Log.Wake]: there may be something to hand. Signals that nobody has taken yet are one.
func (l *Log) Woken() <-chan struct{} { return l.woken }

// Wake says that there may be mails to hand: planned, released, behind a switch that was resumed.
func (l *Log) Wake() { signal(l.woken) }

// WokenWebhooks receives after this process has planned webhooks, or has said so with
// [Log.WakeWebhooks]: there may be something to hand. Signals that nobody has taken yet are one.
func (l *Log) WokenWebhooks() <-chan struct{} { return l.hooks }

// WakeWebhooks says that there may be webhooks to hand: planned, released, of an endpoint that
// was enabled.
func (l *Log) WakeWebhooks() { signal(l.hooks) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Settings hold for the statements that follow in a batch. They touch few rows of tables that
// grow, always by an index, and the plan must be that one: planned once for all values (with
// the values known PostgreSQL would plan each time, and worse: half the rate), and also when
// the plan was made on the first day, for tables that were empty.
const Settings = `
	select set_config('plan_cache_mode', 'force_generic_plan', true),
	       set_config('enable_seqscan', 'off', true),
	       set_config('enable_hashjoin', 'off', true),
	       set_config('enable_mergejoin', 'off', true),
	       set_config('jit', 'off', true)`

// Batch returns a transaction of one round trip, whose first result is that of its settings:
// without BEGIN it needs no client to end, so a frozen process holds no locks.
func Batch() *pgx.Batch {
	b := &pgx.Batch{}
	b.Queue(Settings)
	return b
}

// name is what names a hand.
type name struct{ Key, Token string }

// exec runs a statement with these settings.
func (l *Log) exec(ctx context.Context, sql string, args ...any) error {
	b := Batch()
	b.Queue(sql, args...)
	return l.pool.SendBatch(ctx, b).Close()
}

// names is exec for a statement that returns names of hands.
func (l *Log) names(ctx context.Context, sql string, args ...any) (map[name]bool, error) {
	b := Batch()
	b.Queue(sql, args...)
	results := l.pool.SendBatch(ctx, b)
	defer results.Close() //nolint:errcheck // closed below as well, where its error counts
	if _, err := results.Exec(); err != nil {
		return nil, err
	}
	rows, _ := results.Query() // the collector reports this error too
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[name])
	if err != nil {
		return nil, err
	}
	all := make(map[name]bool, len(found))
	for _, n := range found {
		all[n] = true
	}
	return all, results.Close()
}
