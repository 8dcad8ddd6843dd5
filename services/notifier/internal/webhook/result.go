package webhook

import (
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

var (
	//go:embed lock.sql
	lockSQL string
	//go:embed result.sql
	resultSQL string
	//go:embed health.sql
	healthSQL string
	//go:embed disable.sql
	disableSQL string
	//go:embed late.sql
	lateSQL string
)

// shareSQL locks the results' endpoints before any of their rows, as everybody locks them: what
// becomes of a row is then judged by what its endpoint is.
const shareSQL = `select from notifier.endpoints e where e.id = any ($1) order by e.id for share`

// end is a hand and how it ended.
type end struct {
	hand   Hand
	ending ending
}

// disabled is an endpoint that a batch of results has disabled.
type disabled struct{ ID, Reason string }

// writeOnce writes results, in one transaction and one round trip: the rows, what they say of
// their endpoints, and whether one of those is to be disabled and its owner told. A result
// counts when the row is still in that hand; a 2xx counts in any case, by key. Writing results
// twice changes nothing, so after an error the caller tries again, for as long as it takes.
func (s *Sender) writeOnce(ctx context.Context, ends []end) ([]disabled, error) {
	var keys, tokens, outcomes, answers []string
	var waits []time.Duration
	var last []bool
	for _, e := range ends {
		keys, tokens = append(keys, e.hand.Key), append(tokens, e.hand.Token)
		outcomes, answers = append(outcomes, string(e.ending.outcome)), append(answers, clip(e.ending.words))
		waits, last = append(waits, s.times.wait(e)), append(last, e.hand.Attempts >= len(s.times.Steps))
	}
	health := judge(ends, s.times.RetryCap)
	b := sendlog.Batch()
	b.Queue(lockSQL, health.ids, health.good, health.bad, health.left, s.times.GiveUp)
	b.Queue(shareSQL, health.ids)
	b.Queue(resultSQL, keys, tokens, outcomes, answers, waits, last)
	b.Queue(healthSQL, health.ids, health.good, health.bad, health.rest)
	b.Queue(disableSQL, health.failing, health.keys, health.ns, health.answers, health.gone, s.times.GiveUp)
	results := s.pool.SendBatch(ctx, b)
	defer results.Close() //nolint:errcheck // closed below as well, where its error counts
	for _, step := range []string{"settings", "lock", "share"} {
		if _, err := results.Exec(); err != nil {
			return nil, fmt.Errorf("write webhooks' results: %s: %w", step, err)
		}
	}
	rows, _ := results.Query() // the collector reports this error too
	written, err := pgx.CollectRows(rows, pgx.RowToStructByPos[name])
	if err != nil {
		return nil, fmt.Errorf("write webhooks' results: %w", err)
	}
	if _, err := results.Exec(); err != nil {
		return nil, fmt.Errorf("write endpoints' health: %w", err)
	}
	rows, _ = results.Query()
	off, err := pgx.CollectRows(rows, pgx.RowToStructByPos[disabled])
	if err != nil {
		return nil, fmt.Errorf("disable endpoints: %w", err)
	}
	if err := results.Close(); err != nil { // commits
		return nil, fmt.Errorf("write webhooks' results: %w", err)
	}
	return off, s.writeLate(ctx, ends, written)
}

// name is what names a hand.
type name struct{ Key, Token string }

// writeLate writes 2xx answers of hands that have lost their rows.
func (s *Sender) writeLate(ctx context.Context, ends []end, written []name) error {
	mine := make(map[name]bool, len(written))
	for _, n := range written {
		mine[n] = true
	}
	var keys, tokens, answers []string
	for _, e := range ends {
		if e.ending.outcome == accepted && !mine[name{e.hand.Key, e.hand.Token}] {
			keys, tokens, answers = append(keys, e.hand.Key), append(tokens, e.hand.Token), append(answers, clip(e.ending.words))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	b := sendlog.Batch()
	b.Queue(lateSQL, keys, tokens, answers)
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("write late answers: %w", err)
	}
	return nil
}

// wait is how long a delivery waits after e: its step, or longer when the endpoint asked for
// it, and a random part more.
func (t Times) wait(e end) time.Duration {
	if e.ending.outcome == lost {
		return t.Lost
	}
	step := t.Steps[min(e.hand.Attempts, len(t.Steps)-1)]
	step = max(step, min(e.ending.after, t.RetryCap))
	return step + time.Duration(rand.Float64()*t.Spread*float64(step)) //nolint:gosec // jitter
}

// health is what results say of their endpoints: columns of the statements' parameters.
type health struct {
	ids             []string
	good, bad, left []bool           // a success; the last one a failure; a 410
	rest            []*time.Duration // asked for with Retry-After

	// Of the endpoints with a failure: the hand that counts, a 410 before any other.
	failing []string
	keys    []string
	ns      []int
	answers []string
	gone    []bool
}

// judge goes through results in the order in which they came. What ended by our own fault
// says nothing.
func judge(ends []end, most time.Duration) health {
	h := health{ids: []string{}}
	at, failing := map[string]int{}, map[string]int{}
	for _, e := range ends {
		id := e.hand.Endpoint
		i, known := at[id]
		if !known {
			i = len(h.ids)
			at[id] = i
			h.ids, h.good, h.bad = append(h.ids, id), append(h.good, false), append(h.bad, false)
			h.left, h.rest = append(h.left, false), append(h.rest, nil)
		}
		switch e.ending.outcome {
		case accepted:
			h.good[i], h.bad[i] = true, false
			continue
		case failed, gone:
			h.bad[i], h.left[i] = true, h.left[i] || e.ending.outcome == gone
		default:
			continue
		}
		if rest := min(e.ending.after, most); rest > 0 && (h.rest[i] == nil || *h.rest[i] < rest) {
			h.rest[i] = &rest
		}
		j, known := failing[id]
		if !known {
			j = len(h.failing)
			failing[id] = j
			h.failing, h.keys, h.ns, h.answers, h.gone = append(h.failing, id), append(h.keys, ""), append(h.ns, 0), append(h.answers, ""), append(h.gone, false)
		}
		if isGone := e.ending.outcome == gone; isGone || !h.gone[j] {
			h.keys[j], h.ns[j], h.answers[j], h.gone[j] = e.hand.Key, e.hand.N, clip(e.ending.words), isGone
		}
	}
	return h
}
