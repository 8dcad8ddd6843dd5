package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/services/notifier/internal/plan"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

// event is an outbox row.
type event struct {
	ID        int64
	MessageID string
	Payload   []byte
	CreatedAt time.Time
	Young     bool
}

// events plans the next chunk of outbox rows behind the mark and moves the mark.
func (a *Audit) events(ctx context.Context) (more bool, err error) {
	err = pgdb.InTx(ctx, a.pool, func(ctx context.Context, tx pgx.Tx) error {
		more = false
		mark, mine, err := a.lock(ctx, tx)
		if err != nil || !mine {
			return err
		}
		found, err := a.behind(ctx, tx, mark)
		if err != nil {
			return err
		}
		more = len(found) == a.chunk
		var owed []sendlog.Message
		var told []sendlog.Announcement
		for _, e := range found {
			if e.Young { // not a condition of the query: it would step over a young row with a lower id
				more = false
				break
			}
			messages, events := plan.Encoded{MessageID: e.MessageID, At: e.CreatedAt, Body: e.Payload}.Owed()
			owed, told = append(owed, messages...), append(told, events...)
			mark = e.ID
		}
		if _, err := a.plan(ctx, tx, owed, told); err != nil {
			return err
		}
		return move(ctx, tx, mark, !more)
	})
	if err != nil {
		return false, fmt.Errorf("audit events: %w", err)
	}
	return more, nil
}

const rewindSQL = `
	update notifier.progress
	set mark = least(mark, rewind_mark), rewind_mark = mark, rewound_at = clock_timestamp()
	where name = 'audit' and rewound_at <= clock_timestamp() - $1::interval`

// lock takes the turn of this replica until the transaction ends and returns the mark, which
// has been moved back if it was time. It is not mine when another replica has its turn.
func (a *Audit) lock(ctx context.Context, tx pgx.Tx) (mark int64, mine bool, err error) {
	err = tx.QueryRow(ctx, `select from notifier.progress where name = 'audit' for update skip locked`).Scan()
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("lock mark: %w", err)
	}
	if _, err := tx.Exec(ctx, rewindSQL, a.times.Rewind); err != nil {
		return 0, false, fmt.Errorf("move mark back: %w", err)
	}
	if err := tx.QueryRow(ctx, `select mark from notifier.progress where name = 'audit'`).Scan(&mark); err != nil {
		return 0, false, fmt.Errorf("read mark: %w", err)
	}
	return mark, true, nil
}

const behindSQL = `
	select id, message_id, payload, created_at, created_at > clock_timestamp() - $2::interval as young
	from booking.outbox_for_notifier
	where id > $1
	order by id
	limit $3`

func (a *Audit) behind(ctx context.Context, tx pgx.Tx, mark int64) ([]event, error) {
	rows, _ := tx.Query(ctx, behindSQL, mark, a.times.Young, a.chunk) // the collector reports this error too
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[event])
	if err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	return found, nil
}

// move writes the mark, and that the pass has come to its end.
func move(ctx context.Context, tx pgx.Tx, mark int64, ended bool) error {
	_, err := tx.Exec(ctx, `
		update notifier.progress
		set mark = $1, passed_at = case when $2 then clock_timestamp() else passed_at end
		where name = 'audit'`, mark, ended)
	if err != nil {
		return fmt.Errorf("move mark: %w", err)
	}
	return nil
}
