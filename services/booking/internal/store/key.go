package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/services/booking/internal/app"
)

const tryKey = `select pg_try_advisory_xact_lock(hashtextextended('slotwise idempotency key ' || $1, 0))`

// storedAnswer is a statement of its own: its snapshot is taken after the lock, so that it
// sees what the last holder has committed.
const storedAnswer = `
	select fingerprint, status, header, body
	from booking.idempotency_keys
	where key = $1`

// takeKey takes the idempotency key until tx ends, or returns the answer that was given under
// it. It waits for nobody: [app.ErrKeyRunning].
func takeKey(ctx context.Context, tx pgx.Tx, key app.Key) (answer app.Answer, given bool, err error) {
	if key.Name == "" {
		return app.Answer{}, false, nil
	}
	var mine bool
	var fingerprint []byte
	batch := &pgx.Batch{}
	batch.Queue(tryKey, key.Name).QueryRow(func(row pgx.Row) error { return row.Scan(&mine) })
	batch.Queue(storedAnswer, key.Name).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&fingerprint, &answer.Status, &answer.Header, &answer.Body)
		given = err == nil
		return unlessNone(err)
	})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return app.Answer{}, false, fmt.Errorf("take idempotency key: %w", err)
	}
	switch {
	case given && !bytes.Equal(fingerprint, key.Fingerprint):
		return app.Answer{}, false, app.ErrKeyReused
	case !given && !mine:
		return app.Answer{}, false, app.ErrKeyRunning
	}
	return answer, given, nil
}

const insertKey = `
	insert into booking.idempotency_keys (key, fingerprint, status, header, body)
	values ($1, $2, $3, $4, $5)`

func unlessNone(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}
