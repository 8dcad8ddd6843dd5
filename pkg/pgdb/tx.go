package pgdb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TxTimeout bounds every transaction, retries included. The audit relies on it: an outbox
// row that is older than two minutes has no older sibling that is still uncommitted.
const TxTimeout = 20 * time.Second

// txTries is how often [InTx] runs its function when PostgreSQL asks for a retry.
const txTries = 3

// Beginner is a pool or a connection.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// InTx runs step in one transaction and commits it. When PostgreSQL answers that the
// transaction lost a deadlock (40P01) or a serialization conflict (40001), step runs again,
// three times at most: it must not change anything outside of tx. An error of the commit
// that is not PostgreSQL's own answer leaves the outcome unknown; it is never retried here.
func InTx(ctx context.Context, db Beginner, step func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, TxTimeout)
	defer cancel()
	for try := 1; ; try++ {
		err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return step(ctx, tx) })
		if err == nil || !conflict(err) || try == txTries {
			return err //nolint:wrapcheck // step's own error, as it is
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("retry transaction: %w", ctx.Err())
		case <-time.After(rand.N(time.Duration(try) * 20 * time.Millisecond)): //nolint:gosec // jitter
		}
	}
}

func conflict(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgErr.Code == "40001" || pgErr.Code == "40P01")
}

// Violates reports whether err breaks the constraint (or unique index) of that name.
func Violates(err error, constraint string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.ConstraintName == constraint
}

// Refused reports whether PostgreSQL itself answered with the error. Other errors are of the
// way there: whether a statement or a commit took effect is then not known.
func Refused(err error) bool {
	_, ok := errors.AsType[*pgconn.PgError](err)
	return ok
}
