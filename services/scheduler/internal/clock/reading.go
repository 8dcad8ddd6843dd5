package clock

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
)

// NATS reads the clock of the server that leads consumer, from what it says of it.
func NATS(js jetstream.JetStream, stream, consumer string) Reading {
	return func(ctx context.Context) (time.Time, error) {
		c, err := js.Consumer(ctx, stream, consumer)
		if err != nil {
			return time.Time{}, fmt.Errorf("ask for consumer %s: %w", consumer, err)
		}
		return c.CachedInfo().TimeStamp, nil
	}
}

// Database reads PostgreSQL's clock.
func Database(db *pgxpool.Pool) Reading {
	return func(ctx context.Context) (now time.Time, err error) {
		if err := db.QueryRow(ctx, `select clock_timestamp()`).Scan(&now); err != nil {
			return time.Time{}, fmt.Errorf("ask for the time: %w", err)
		}
		return now, nil
	}
}
