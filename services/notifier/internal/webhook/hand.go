package webhook

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

// Hand is one delivery in hand: what the transaction that took it returned. Key and Token
// together name it.
type Hand struct {
	Key, Token string
	N          int // hands of this delivery so far, this one included
	Copy       int
	Attempts   int // failures so far
	DueAt      time.Time
	Facts      sendlog.Facts

	// As they were at the hand.
	Endpoint string
	URL      string
	Secrets  []string // the current one first
	Failing  bool     // the endpoint's last try failed

	begun time.Time // with both clocks, before the hand was sent to PostgreSQL
}

// ID is the delivery's webhook-id.
func (h Hand) ID() string { return id.WebhookID(h.Key, h.Copy) }

// since is the time since the hand began, by that clock which says more: a suspended machine
// stops the monotonic one, somebody may set the other.
func (h Hand) since(now time.Time) time.Duration {
	return max(now.Sub(h.begun), now.Round(0).Sub(h.begun.Round(0)))
}

var (
	//go:embed take.sql
	takeSQL string
	//go:embed read.sql
	readSQL string
	//go:embed next.sql
	nextSQL string
)

// turnSQL lets one hand through at a time, of all notifiers: what an endpoint has in hand is
// then what the next one counts.
const turnSQL = `select pg_advisory_xact_lock(hashtextextended('slotwise webhooks', 0))`

// hand takes at most n due deliveries, failing of them at most for endpoints that fail, and
// returns those that are to be tried now, and how long nothing else will be due. What has
// lost its endpoint is closed or held. The transaction is one round trip; when its answer is
// lost, what it took is in nobody's hand and its lease ends.
func (s *Sender) hand(ctx context.Context, n, failing int) (hands []Hand, wait time.Duration, err error) {
	token, begun := uuid.NewString(), time.Now()
	b := sendlog.Batch()
	b.Queue(turnSQL)
	b.Queue(takeSQL, token, n, failing, s.times.Lease)
	b.Queue(readSQL, token)
	b.Queue(nextSQL, failing)
	results := s.pool.SendBatch(ctx, b)
	defer results.Close() //nolint:errcheck // closed below as well, where its error counts
	for _, step := range []string{"settings", "turn", "take"} {
		if _, err := results.Exec(); err != nil {
			return nil, 0, fmt.Errorf("hand webhooks: %s: %w", step, err)
		}
	}
	rows, _ := results.Query() // the collector reports this error too
	hands, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Hand, error) {
		h := Hand{Token: token, begun: begun}
		err := row.Scan(&h.Key, &h.N, &h.Copy, &h.Attempts, &h.DueAt, &h.Facts, &h.Endpoint, &h.URL, &h.Secrets, &h.Failing)
		return h, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("hand webhooks: read: %w", err)
	}
	var seconds *float64
	if err := results.QueryRow().Scan(&seconds); err != nil {
		return nil, 0, fmt.Errorf("hand webhooks: next: %w", err)
	}
	if err := results.Close(); err != nil { // commits
		return nil, 0, fmt.Errorf("hand webhooks: %w", err)
	}
	wait = s.times.Poll
	if seconds != nil {
		wait = min(wait, max(0, time.Duration(*seconds*float64(time.Second))))
	}
	return hands, wait, nil
}
