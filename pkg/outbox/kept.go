package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Kept returns at most limit published rows that were written at since or later and whose ids
// are above after, in the order of their ids: what can be published again to a stream that
// has lost it.
func (t Table) Kept(ctx context.Context, db DB, since time.Time, after int64, limit int) ([]Row, error) {
	rows, err := db.Query(ctx, `
		select id, key, subject, message_id, headers, payload, created_at, attempts
		from `+t.name+`
		where published_at is not null
		  and created_at >= $1
		  and id > $2
		order by id
		limit $3`, since, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read kept outbox rows: %w", err)
	}
	all, err := pgx.CollectRows(rows, scanRow)
	if err != nil {
		return nil, fmt.Errorf("read kept outbox rows: %w", err)
	}
	return all, nil
}
