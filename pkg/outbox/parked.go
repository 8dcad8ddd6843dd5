package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Parked is an event that was refused for so long that it was taken out of its key's way.
type Parked struct {
	ID        int64     `json:"id"`
	Key       string    `json:"key"`
	Subject   string    `json:"subject"`
	MessageID string    `json:"message_id"`
	Attempts  int       `json:"attempts"`
	Reason    string    `json:"reason"`
	ParkedAt  time.Time `json:"parked_at"`
}

// DB is a pool, a connection or a transaction.
type DB interface {
	Querier
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Parked lists at most limit parked rows, in the order of their ids.
func (t Table) Parked(ctx context.Context, db DB, limit int) ([]Parked, error) {
	rows, err := db.Query(ctx, `
		select id, key, subject, message_id, attempts, coalesce(last_error, ''), parked_at
		from `+t.name+`
		where parked_at is not null
		order by id
		limit $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list parked outbox rows: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Parked])
	if err != nil {
		return nil, fmt.Errorf("list parked outbox rows: %w", err)
	}
	return all, nil
}

// Unpark makes parked rows due again at once, as if they had never been refused, and returns
// how many. With no ids it takes all. Events of a row's key that were published meanwhile
// stay before it: consumers recognise the old version.
func (t Table) Unpark(ctx context.Context, db DB, ids ...int64) (int64, error) {
	tag, err := db.Exec(ctx, `
		update `+t.name+`
		set parked_at = null, attempts = 0, next_attempt_at = '-infinity'
		where parked_at is not null and ($1::bigint[] is null or id = any ($1))`, ids)
	if err != nil {
		return 0, fmt.Errorf("unpark outbox rows: %w", err)
	}
	return tag.RowsAffected(), nil
}
