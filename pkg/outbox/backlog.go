package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Backlog is what waits in an outbox.
type Backlog struct {
	Waiting int64
	Parked  int64
	Oldest  time.Duration // age of the oldest waiting row; 0 when none waits
}

// Querier is a pool, a connection or a transaction.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Backlog reads how much waits, at the cost of the waiting rows alone.
func (t Table) Backlog(ctx context.Context, db Querier) (Backlog, error) {
	var b Backlog
	var oldest float64
	err := db.QueryRow(ctx, `
		select (select count(*) from `+t.name+` where published_at is null and parked_at is null),
		       (select count(*) from `+t.name+` where parked_at is not null),
		       coalesce(extract(epoch from clock_timestamp() - (
		           select created_at from `+t.name+` where published_at is null and parked_at is null order by id limit 1)), 0)`).
		Scan(&b.Waiting, &b.Parked, &oldest)
	if err != nil {
		return Backlog{}, fmt.Errorf("read outbox backlog: %w", err)
	}
	b.Oldest = time.Duration(oldest * float64(time.Second))
	return b, nil
}
