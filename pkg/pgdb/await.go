package pgdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/pkg/retry"
	"go.uber.org/zap"
)

// ErrOldSchema says that the database has not got the migrations that a program needs.
var ErrOldSchema = errors.New("schema is older than this program: run its migrations")

// Schema returns a check that schema has every migration in files. A newer schema passes:
// the last release keeps running while the next one migrates.
func Schema(schema string, files fs.FS) func(ctx context.Context, pool *pgxpool.Pool) error {
	return func(ctx context.Context, pool *pgxpool.Pool) error {
		all, err := Migrations(files)
		if err != nil {
			return err
		}
		var have int
		err = pool.QueryRow(ctx, `select coalesce(max(number), 0) from `+pgx.Identifier{schema, "migrations"}.Sanitize()).Scan(&have)
		if err != nil {
			return fmt.Errorf("read migrations of %s: %w", schema, err)
		}
		if have < len(all) {
			return fmt.Errorf("%w (%s has %d of %d)", ErrOldSchema, schema, have, len(all))
		}
		return nil
	}
}

// Readable returns a check that the view or table of another service can be read.
func Readable(schema, name string) func(ctx context.Context, pool *pgxpool.Pool) error {
	return func(ctx context.Context, pool *pgxpool.Pool) error {
		if _, err := pool.Exec(ctx, `select from `+pgx.Identifier{schema, name}.Sanitize()+` limit 0`); err != nil {
			return fmt.Errorf("read %s.%s: %w", schema, name, err)
		}
		return nil
	}
}

// Await returns once every check passes, or with the context's error. It waits 1 s, doubling
// to 30 s, between tries and logs one line for each.
func Await(ctx context.Context, log *zap.Logger, pool *pgxpool.Pool, checks ...func(context.Context, *pgxpool.Pool) error) error {
	wait := retry.Backoff{Base: time.Second, Max: 30 * time.Second}
	for n := 1; ; n++ {
		err := passes(ctx, pool, checks)
		if err == nil {
			return nil
		}
		pause := wait.Delay(n)
		log.Warn("database is not ready", zap.Error(err), zap.Duration("wait", pause))
		if err := retry.Sleep(ctx, pause); err != nil {
			return fmt.Errorf("wait for database: %w", err)
		}
	}
}

func passes(ctx context.Context, pool *pgxpool.Pool, checks []func(context.Context, *pgxpool.Pool) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, check := range checks {
		if err := check(ctx, pool); err != nil {
			return err
		}
	}
	return nil
}
