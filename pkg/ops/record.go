package ops

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// Execer is a pool, a connection or, best, the transaction of the change itself.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Record notes that operator did operation, with arguments (encoded as JSON), and how many
// things it changed.
func Record(ctx context.Context, db Execer, operator, operation string, arguments any, affected int64) error {
	if arguments == nil {
		arguments = struct{}{}
	}
	text, err := json.Marshal(arguments)
	if err != nil {
		return fmt.Errorf("record operation %s: encode arguments: %w", operation, err)
	}
	// As text: behind a pooler pgx does not know that the column is jsonb.
	if _, err := db.Exec(ctx, `
		insert into notifier.operations (operator, operation, arguments, affected)
		values ($1, $2, $3, $4)`, operator, operation, string(text), affected); err != nil {
		return fmt.Errorf("record operation %s: %w", operation, err)
	}
	return nil
}
