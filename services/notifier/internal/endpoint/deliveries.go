package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/pkg/ops/message"
	"github.com/slotwise/slotwise/pkg/web"
)

// shownAttempts is how many attempts of a delivery are shown: the last ones. Their answers alone
// may be 100 KiB, and an answer over NATS has 200.
const shownAttempts = 100

// delivery is a row of the send log.
type delivery struct {
	Key, Endpoint, State string
	Booking, Reason      *string
	Version              int64
	Copy                 int
	CreatedAt, DueAt     time.Time
	AcceptedAt           *time.Time
	Tries                int
	Body                 []byte
}

// deliveriesSQL begins with what [delivery] reads; a condition follows.
const deliveriesSQL = `
	select s.key, s.endpoint, s.state, s.booking::text as booking, s.reason, coalesce(s.version, 0) as version, s.copy, s.created_at, s.due_at,
	       s.accepted_at, coalesce((select max(h.n) from notifier.hands h where h.key = s.key), 0) as tries,
	       coalesce(decode(s.payload ->> 'event', 'base64'), '') as body
	from notifier.send_log s
	where s.channel = 'webhook' and `

// Deliveries lists those that q asks for, the newest first; limit is how many at most, and more
// says that there are others. They have no attempts and no bodies.
func (s *Store) Deliveries(ctx context.Context, q message.DeliveryQuery, limit int, sees Viewer) (list []message.Delivery, more bool, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		e, err := read(ctx, tx, q.Endpoint)
		if err != nil {
			return err
		}
		if !sees(e.Resources) {
			return ErrNotFound
		}
		var from *time.Time
		if q.Before != "" {
			err := tx.QueryRow(ctx, `select created_at from notifier.send_log where key = $1 and endpoint = $2`, q.Before, q.Endpoint).Scan(&from)
			if errors.Is(err, pgx.ErrNoRows) {
				return &InvalidError{[]web.FieldError{{Field: "before", Detail: "is no delivery of this endpoint"}}}
			}
			if err != nil {
				return err //nolint:wrapcheck // wrapped below
			}
		}
		rows, _ := tx.Query(ctx, deliveriesSQL+`s.endpoint = $1
			and ($2::text[] is null or s.state = any ($2::text[]))
			and ($3::timestamptz is null or s.created_at >= $3::timestamptz)
			and ($4::timestamptz is null or s.created_at < $4::timestamptz)
			and ($5::timestamptz is null or (s.created_at, s.key) < ($5::timestamptz, $6))
			order by s.created_at desc, s.key desc
			limit $7`, q.Endpoint, q.States, q.Since, q.Until, from, q.Before, limit+1) // the collector reports this error too
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[delivery])
		if err != nil {
			return fmt.Errorf("read deliveries: %w", err)
		}
		for _, d := range found {
			list = append(list, d.shown())
		}
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("list deliveries: %w", err)
	}
	if len(list) > limit {
		return list[:limit], true, nil
	}
	return list, false, nil
}

// Delivery returns one, with its attempts and its body. With a name it must be that endpoint's.
func (s *Store) Delivery(ctx context.Context, name, key string, sees Viewer) (shown message.Delivery, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, deliveriesSQL+`s.key = $1`, key) // the collector reports this error too
		d, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[delivery])
		if errors.Is(err, pgx.ErrNoRows) || err == nil && name != "" && d.Endpoint != name {
			return ErrNotFound
		}
		if err != nil {
			return fmt.Errorf("read delivery: %w", err)
		}
		e, err := read(ctx, tx, d.Endpoint)
		if err != nil {
			return err
		}
		if !sees(e.Resources) {
			return ErrNotFound
		}
		shown = d.shown()
		shown.Body = string(d.Body)
		shown.Attempts, err = attempts(ctx, tx, key)
		return err
	})
	if err != nil {
		return shown, fmt.Errorf("get delivery: %w", err)
	}
	return shown, nil
}

func attempts(ctx context.Context, tx pgx.Tx, key string) ([]message.Attempt, error) {
	rows, _ := tx.Query(ctx, `
		select h.n, h.token::text, h.handed_at, h.ended_at, coalesce(h.outcome, ''), coalesce(h.answer, '')
		from (select * from notifier.hands where key = $1 order by n desc limit $2) h
		order by h.n`, key, shownAttempts) // the collector reports this error too
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (a message.Attempt, err error) { //nolint:wrapcheck // the caller's wrap says enough
		if err := row.Scan(&a.N, &a.Hand, &a.At, &a.EndedAt, &a.Outcome, &a.Answer); err != nil {
			return a, err //nolint:wrapcheck // as above
		}
		a.At = a.At.UTC()
		if a.EndedAt != nil {
			ended := a.EndedAt.UTC()
			took := ended.Sub(a.At).Milliseconds()
			a.EndedAt, a.Duration = &ended, &took
		}
		a.Status = status(a.Answer)
		return a, nil
	})
}

// status is the status that an answer begins with; 0 when it is a reason why there was none.
func status(answer string) int {
	word, _, _ := strings.Cut(strings.TrimSpace(answer), " ")
	n, err := strconv.Atoi(word)
	if err != nil || len(word) != 3 || n < 100 {
		return 0
	}
	return n
}

// examplePrefix begins the keys of examples: see migration 0007.
const examplePrefix = "webhook-example-"

func (d delivery) shown() message.Delivery {
	m := message.Delivery{
		Key: d.Key, WebhookID: id.WebhookID(d.Key, d.Copy), Endpoint: d.Endpoint, Version: d.Version, Example: strings.HasPrefix(d.Key, examplePrefix), Copy: d.Copy,
		State: d.State, CreatedAt: d.CreatedAt.UTC(), Tries: d.Tries,
	}
	if d.Booking != nil {
		m.Booking = *d.Booking
	}
	if d.Reason != nil {
		m.Reason = *d.Reason
	}
	if d.State == "planned" || d.State == "unknown" {
		due := d.DueAt.UTC()
		m.NextAt = &due
	}
	if d.AcceptedAt != nil {
		accepted := d.AcceptedAt.UTC()
		m.AcceptedAt = &accepted
	}
	if e, err := event.Decode(d.Body); err == nil {
		m.Type, m.Event = string(e.Type), e.ID
	}
	return m
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// asText is for the functions of schema notifier, which take jsonb: what is not described before
// it runs (DATABASE_EXEC_MODE) has no type of its own.
func asText(v any) string {
	text, _ := json.Marshal(v) // strings and numbers always encode
	return string(text)
}
