package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/services/booking/internal/app"
)

const tryKey = `select pg_try_advisory_xact_lock(hashtextextended('slotwise idempotency key ' || $1, 0))`

// storedAnswers is a statement of its own: its snapshot is taken after the lock, so that it
// sees what the last holder has committed.
const storedAnswers = `
	select key, coalesce(caller, ''), fingerprint, status, header, body
	from booking.idempotency_keys
	where key in ($1, $2)`

// shelf is where the answer under an idempotency key is kept: one row for each caller.
//
// The row's key is the name itself, as in the last release, which knows no callers: a request
// that is repeated to it while both run finds its answer, and the other way round. Only when
// somebody else has the name already, the row's key is derived from caller and name. The lock
// is the name's, for all callers: who meets another's request under it asks again.
type shelf struct {
	name string // of the row
	own  *kept  // what is there, if it is the caller's
}

type kept struct {
	fingerprint []byte
	answer      app.Answer
}

// takeKey takes the idempotency key until tx ends, or returns the answer that was given under
// it. It waits for nobody: [app.ErrKeyRunning].
func takeKey(ctx context.Context, tx pgx.Tx, key app.Key) (at shelf, err error) {
	if key.Name == "" {
		return shelf{}, nil
	}
	var mine bool
	derived := deriveName(key)
	at.name = key.Name
	batch := &pgx.Batch{}
	batch.Queue(tryKey, key.Name).QueryRow(func(row pgx.Row) error { return row.Scan(&mine) })
	batch.Queue(storedAnswers, key.Name, derived).Query(func(rows pgx.Rows) error {
		var name, caller string
		var k kept
		_, err := pgx.ForEachRow(rows, []any{&name, &caller, &k.fingerprint, &k.answer.Status, &k.answer.Header, &k.answer.Body}, func() error {
			switch {
			case caller == key.Caller, caller == "" && key.Nobodys && at.own == nil:
				at.own = &kept{k.fingerprint, k.answer}
			case name == key.Name:
				at.name = derived
			}
			k = kept{}
			return nil
		})
		return err
	})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return shelf{}, fmt.Errorf("take idempotency key: %w", err)
	}
	switch {
	case at.own != nil && !bytes.Equal(at.own.fingerprint, key.Fingerprint):
		return shelf{}, app.ErrKeyReused
	case at.own == nil && !mine:
		return shelf{}, app.ErrKeyRunning
	}
	return at, nil
}

// deriveName begins with a space, so that it is nobody's own name.
func deriveName(key app.Key) string {
	return fmt.Sprintf(" %x", sha256.Sum256([]byte(key.Caller+"\n"+key.Name)))
}

const insertKey = `
	insert into booking.idempotency_keys (key, caller, fingerprint, status, header, body)
	values ($1, nullif($2, ''), $3, $4, $5, $6)`

func unlessNone(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}
