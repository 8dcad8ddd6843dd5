package audit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/services/notifier/internal/plan"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"go.uber.org/zap"
)

// unread is the row of an event that could not be read when it came.
type unread struct {
	Key   string
	At    time.Time
	Facts sendlog.Facts
}

const releasedSQL = `
	select key, due_at as at, payload as facts
	from notifier.send_log
	where channel = 'event' and state = 'planned'
	order by key
	limit $1
	for no key update skip locked`

const reread = 100 // events of up to 64 KiB in one transaction

// released plans what those events owe that an operator has released, in the hope that this
// program can read them. A row that was read is skipped, one that was not is held again.
func (a *Audit) released(ctx context.Context) (more bool, err error) {
	err = pgdb.InTx(ctx, a.pool, func(ctx context.Context, tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, releasedSQL, reread) // the collector reports this error too
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[unread])
		if err != nil {
			return fmt.Errorf("read rows: %w", err)
		}
		for _, u := range found {
			if err := a.reread(ctx, tx, u); err != nil {
				return err
			}
		}
		more = len(found) == reread
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("audit released events: %w", err)
	}
	return more, nil
}

func (a *Audit) reread(ctx context.Context, tx pgx.Tx, u unread) error {
	owed, told := plan.Encoded{MessageID: strings.TrimPrefix(u.Key, id.Unreadable("")), At: u.At, Body: u.Facts.Event}.Owed()
	state, reason := sendlog.Skipped, "read: what it owes is planned"
	if len(owed) == 1 && owed[0].State == sendlog.Held {
		state, reason = sendlog.Held, owed[0].Reason
	} else if _, err := a.log.PlanEvents(ctx, owed, told); err != nil {
		return fmt.Errorf("plan %s: %w", u.Key, err)
	}
	if _, err := tx.Exec(ctx, `update notifier.send_log set state = $2, reason = $3 where key = $1`, u.Key, state, reason); err != nil {
		return fmt.Errorf("close %s: %w", u.Key, err)
	}
	a.logger.Info("released event read again", zap.String("key", u.Key), zap.String("state", string(state)), zap.Int("messages", len(owed)))
	return nil
}
