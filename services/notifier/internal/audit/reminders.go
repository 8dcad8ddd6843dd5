package audit

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/services/notifier/internal/plan"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

//go:embed missed.sql
var missedSQL string

// reminders plans a chunk of the reminders that were missed.
func (a *Audit) reminders(ctx context.Context) (more bool, err error) {
	err = pgdb.InTx(ctx, a.pool, func(ctx context.Context, tx pgx.Tx) error {
		more = false
		if _, mine, err := a.lock(ctx, tx); err != nil || !mine {
			return err
		}
		rows, _ := tx.Query(ctx, missedSQL, a.times.Missed, a.chunk) // the collector reports this error too
		missed, err := pgx.CollectRows(rows, pgx.RowToStructByName[plan.Booking])
		if err != nil {
			return fmt.Errorf("read bookings: %w", err)
		}
		owed := make([]sendlog.Message, len(missed))
		for i, b := range missed {
			owed[i] = b.Reminder()
		}
		inserted, err := a.plan(ctx, tx, owed, nil)
		more = len(missed) == a.chunk && inserted > 0 // else the same ones would be found for ever
		return err
	})
	if err != nil {
		return false, fmt.Errorf("audit reminders: %w", err)
	}
	return more, nil
}
