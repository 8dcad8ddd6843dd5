package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Row is a waiting event as the relay sees it.
type Row struct {
	ID int64
	Event
	CreatedAt time.Time
	Attempts  int // refusals so far
}

// Claim locks and returns at most limit rows that are due, in the order of their ids, until
// tx ends. Of each key it returns only the oldest waiting row, and rows that somebody else
// has claimed are passed over, so any number of relays may claim at once.
func (t Table) Claim(ctx context.Context, tx pgx.Tx, limit int) ([]Row, error) {
	rows, err := tx.Query(ctx, `
		select o.id, o.key, o.subject, o.message_id, o.headers, o.payload, o.created_at, o.attempts
		from `+t.name+` o
		where o.published_at is null
		  and o.parked_at is null
		  and o.next_attempt_at <= now()
		  and not exists (
		      select from `+t.name+` older
		      where older.key = o.key
		        and older.id < o.id
		        and coalesce(older.published_at, older.parked_at) is null
		      offset 0)
		order by o.id
		limit $1
		for no key update of o skip locked`, limit)
	if err != nil {
		return nil, fmt.Errorf("claim outbox rows: %w", err)
	}
	claimed, err := pgx.CollectRows(rows, scanRow)
	if err != nil {
		return nil, fmt.Errorf("claim outbox rows: %w", err)
	}
	return claimed, nil
}

func scanRow(row pgx.CollectableRow) (Row, error) {
	var r Row
	err := row.Scan(&r.ID, &r.Key, &r.Subject, &r.MessageID, &r.Headers, &r.Payload, &r.CreatedAt, &r.Attempts)
	return r, err
}

// Published marks the claimed rows with these ids as published.
func (t Table) Published(ctx context.Context, tx pgx.Tx, ids []int64) error {
	if _, err := tx.Exec(ctx, `
		update `+t.name+`
		set published_at = clock_timestamp(), last_error = null
		where id = any ($1)`, ids); err != nil {
		return fmt.Errorf("mark outbox rows: %w", err)
	}
	return nil
}

// Refused notes that the stream refused the claimed row itself, and why; the row is due again
// after wait.
func (t Table) Refused(ctx context.Context, tx pgx.Tx, rowID int64, reason string, wait time.Duration) error {
	if _, err := tx.Exec(ctx, `
		update `+t.name+`
		set attempts = attempts + 1, last_error = $2, next_attempt_at = clock_timestamp() + $3
		where id = $1`, rowID, reason, wait); err != nil {
		return fmt.Errorf("put back outbox row: %w", err)
	}
	return nil
}

// Park notes one more refusal of the claimed row and takes it out of its key's way: its
// successors go on, and it waits for [Table.Unpark].
func (t Table) Park(ctx context.Context, tx pgx.Tx, rowID int64, reason string) error {
	if _, err := tx.Exec(ctx, `
		update `+t.name+`
		set attempts = attempts + 1, last_error = $2, parked_at = clock_timestamp()
		where id = $1`, rowID, reason); err != nil {
		return fmt.Errorf("park outbox row: %w", err)
	}
	return nil
}
