package endpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// batch is how many deliveries one statement of the SQL functions moves.
const batch = 10_000

// Disable holds what waits for an endpoint and what comes. It returns how many deliveries it
// held, [batch] at most: the sweep of package webhook holds the rest. changed is false when the
// endpoint was disabled already.
func (s *Store) Disable(ctx context.Context, name, reason, operator string) (n int64, changed bool, err error) {
	return s.turn(ctx, name, false, reason, operator)
}

// Enable plans again what [Store.Disable], or the rules of package webhook, held, and counts as
// that does.
func (s *Store) Enable(ctx context.Context, name, operator string) (n int64, changed bool, err error) {
	return s.turn(ctx, name, true, "", operator)
}

func (s *Store) turn(ctx context.Context, name string, on bool, reason, operator string) (n int64, changed bool, err error) {
	err = s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := lock(ctx, tx, name, false); err != nil {
			return err
		}
		moved, err := turn(ctx, tx, name, on, reason, operator)
		if moved != nil {
			n, changed = *moved, true
		}
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("turn endpoint: %w", err)
	}
	return n, changed, nil
}

// turn returns how many deliveries were moved; nil when the endpoint stood so already.
func turn(ctx context.Context, tx pgx.Tx, name string, on bool, reason, operator string) (moved *int64, err error) {
	if on {
		err = tx.QueryRow(ctx, `select notifier.enable_endpoint($1, $2)`, name, operator).Scan(&moved)
	} else {
		err = tx.QueryRow(ctx, `select notifier.disable_endpoint($1, $2, $3)`, name, reason, operator).Scan(&moved)
	}
	return moved, err //nolint:wrapcheck // the caller's wrap says enough
}

// Delete removes an endpoint for good and returns how many deliveries it skipped, [batch] at
// most: the sweep of package webhook skips the rest.
func (s *Store) Delete(ctx context.Context, name string, sees Viewer, operator string) (n int64, err error) {
	err = s.on(ctx, name, sees, func(ctx context.Context, tx pgx.Tx) error {
		var skipped *int64
		if err := tx.QueryRow(ctx, `select notifier.delete_endpoint($1, $2)`, name, operator).Scan(&skipped); err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		if skipped == nil {
			return ErrNotFound // meanwhile
		}
		n = *skipped
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("delete endpoint: %w", err)
	}
	return n, nil
}

// Rotate gives an endpoint a new secret, which it returns. The old one signs as well for the
// overlap, at most 30 days.
func (s *Store) Rotate(ctx context.Context, name string, overlap time.Duration, sees Viewer, operator string) (secret string, err error) {
	err = s.on(ctx, name, sees, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `select notifier.rotate_secret($1, $2::interval, $3)`, name, overlap, operator).Scan(&secret)
	})
	if err != nil {
		return "", fmt.Errorf("rotate secret: %w", err)
	}
	return secret, nil
}

// Example plans the delivery of an example and returns its key.
func (s *Store) Example(ctx context.Context, name string, sees Viewer, operator string) (key string, err error) {
	err = s.on(ctx, name, sees, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `select notifier.example_endpoint($1, $2)`, name, operator).Scan(&key)
	})
	if err != nil {
		return "", fmt.Errorf("send example: %w", err)
	}
	return key, nil
}

// Recover plans again what was planned for an endpoint since then and is held, refused or waits
// for a later try. It does so [batch] by batch, and returns how many those were in all.
func (s *Store) Recover(ctx context.Context, name string, since time.Time, sees Viewer, operator string) (n int64, err error) {
	for moved := int64(batch); moved >= batch; n += moved {
		err := s.on(ctx, name, sees, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, `select notifier.recover_endpoint($1, $2::timestamptz, $3)`, name, since, operator).Scan(&moved)
		})
		if err != nil {
			return n, fmt.Errorf("recover endpoint: %w", err)
		}
	}
	return n, nil
}

// Resend plans a delivery again, or a copy of one that was sent or skipped, and returns the key
// of what is planned. With a name it must be that endpoint's.
func (s *Store) Resend(ctx context.Context, name, key string, sees Viewer, operator string) (planned string, err error) {
	err = s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var owner string
		err := tx.QueryRow(ctx, `select endpoint from notifier.send_log where key = $1 and channel = 'webhook'`, key).Scan(&owner)
		switch {
		case errors.Is(err, pgx.ErrNoRows) || err == nil && name != "" && owner != name:
			return ErrNotFound
		case err != nil:
			return err //nolint:wrapcheck // wrapped below
		}
		if err := lockVisible(ctx, tx, owner, sees); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `select notifier.resend_delivery($1, $2)`, key, operator).Scan(&planned)
	})
	if err != nil {
		return "", fmt.Errorf("resend delivery: %w", err)
	}
	return planned, nil
}
