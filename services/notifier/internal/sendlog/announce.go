package sendlog

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Announcement is an event that endpoints are told of.
type Announcement struct {
	Event    string    `json:"event"` // its id
	Type     string    `json:"type"`
	Booking  string    `json:"booking"`
	Resource string    `json:"resource"`
	Version  int64     `json:"version"`
	At       time.Time `json:"at"`   // the event's time: endpoints that are younger are not told
	Body     []byte    `json:"body"` // what each is sent, byte for byte (base64 in JSON)
}

// announced is how many events one transaction announces at most: with a hundred endpoints that
// is a second's work.
const announced = 500

//go:embed announce.sql
var announceSQL string

// anybodySQL is all that planning costs an installation without endpoints: 20 µs a call of
// PlanEvents, however many events it brings.
const anybodySQL = `select exists (select from notifier.endpoints where deleted_at is null)`

// PlanEvents is [Log.Plan] for messages, and plans a webhook for each endpoint that was created
// before an event's time, is not deleted and wants the event, as the endpoints stand now. What
// is for a disabled one is held. It returns the keys of both.
//
// Messages and webhooks are written by one transaction, unless this process has not known that
// there are endpoints, or there are very many events. After an error, plan all of them again.
func (l *Log) PlanEvents(ctx context.Context, messages []Message, events []Announcement) ([]string, error) {
	if len(events) == 0 {
		return l.Plan(ctx, messages)
	}
	first := events[:min(len(events), announced)]
	known := l.announces.Load()
	if !known {
		first = nil
	}
	keys, anybody, err := l.planEvents(ctx, messages, first)
	if err != nil {
		return nil, err
	}
	l.announces.Store(anybody)
	if !anybody {
		return keys, nil
	}
	for chunk := range slices.Chunk(events[len(first):], announced) {
		more, _, err := l.planEvents(ctx, nil, chunk)
		if err != nil {
			return nil, err
		}
		keys = append(keys, more...)
	}
	return keys, nil
}

// planEvents writes messages and webhooks of events in one transaction and one round trip, and
// reports whether there is an endpoint.
func (l *Log) planEvents(ctx context.Context, messages []Message, events []Announcement) (keys []string, anybody bool, err error) {
	b, webhooks := &pgx.Batch{}, 0
	if len(messages) > 0 {
		text, err := encodeRows(messages)
		if err != nil {
			return nil, false, err
		}
		b.Queue(planSQL, text, l.times.Late).Query(func(rows pgx.Rows) error {
			keys, err = pgx.AppendRows(keys, rows, pgx.RowTo[string])
			return err //nolint:wrapcheck // wrapped below
		})
	}
	if len(events) > 0 {
		text, err := json.Marshal(events)
		if err != nil {
			return nil, false, fmt.Errorf("plan events: %w", err)
		}
		b.Queue(announceSQL, string(text)).Query(func(rows pgx.Rows) error {
			mails := len(keys)
			keys, err = pgx.AppendRows(keys, rows, pgx.RowTo[string])
			webhooks = len(keys) - mails
			return err //nolint:wrapcheck // wrapped below
		})
	}
	b.Queue(anybodySQL).QueryRow(func(row pgx.Row) error { return row.Scan(&anybody) })
	if err := l.pool.SendBatch(ctx, b).Close(); err != nil { // commits
		return nil, false, fmt.Errorf("plan: %w", err)
	}
	if len(keys) > webhooks {
		l.Wake()
	}
	if webhooks > 0 {
		l.WakeWebhooks()
	}
	return keys, anybody, nil
}
