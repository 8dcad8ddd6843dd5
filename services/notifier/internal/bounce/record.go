package bounce

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/pkg/pgdb"
)

// Outcome is what a report changed.
type Outcome string

// The outcomes.
const (
	Bounced   Outcome = "bounced"   // the mail is marked, the host told, the address suppressed if that was for good
	Noted     Outcome = "noted"     // the mail tells that it is delayed
	Unchanged Outcome = "unchanged" // nothing: the same was known already
	Ignored   Outcome = "ignored"   // nothing: the mail was delivered
	Unmatched Outcome = "unmatched" // nothing: it is about no mail that has been in hand
)

//go:embed record.sql
var recordSQL string

// Record writes what r tells, in one transaction, and returns the key of the message that it is
// about. Recording it twice changes nothing.
func Record(ctx context.Context, pool *pgxpool.Pool, r Report) (key string, o Outcome, err error) {
	if r.Type == None {
		return "", Ignored, nil
	}
	var changed bool
	err = pgdb.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, recordSQL, r.Keys, r.Type == Hard, r.Words, r.Address, r.ForGood()).Scan(&key, &changed)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", Unmatched, nil
	case err != nil:
		return "", "", fmt.Errorf("record a report: %w", err)
	case !changed:
		return key, Unchanged, nil
	case r.Type == Soft:
		return key, Noted, nil
	}
	return key, Bounced, nil
}
