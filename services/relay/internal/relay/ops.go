package relay

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/pkg/ops"
	"github.com/slotwise/slotwise/pkg/outbox"
	"github.com/slotwise/slotwise/pkg/pgdb"
)

// shownParked is how many parked rows ops.get.relay lists.
const shownParked = 100

// Report is the answer of ops.get.relay.
type Report struct {
	Outbox        string          `json:"outbox"`
	Stream        string          `json:"stream"`
	Waiting       int64           `json:"waiting"`
	OldestSeconds float64         `json:"oldest_seconds"` // age of the oldest waiting row
	PausedSince   *time.Time      `json:"paused_since,omitempty"`
	PauseReason   string          `json:"pause_reason,omitempty"`
	Parked        int64           `json:"parked"`
	ParkedRows    []outbox.Parked `json:"parked_rows"` // the first hundred
}

// Unpark is the request of ops.do.<operator>.unpark: some rows by id, or all.
type Unpark struct {
	IDs []int64 `json:"ids,omitempty"`
	All bool    `json:"all,omitempty"`
}

// Endpoints are what can be asked of r, and commanded.
func Endpoints(r *Relay, s Settings, db *pgxpool.Pool) []ops.Endpoint {
	return []ops.Endpoint{
		{
			Name: "relay", About: "what waits in the outbox, what is parked, and whether the relay pauses",
			Answer: func(ctx context.Context, _ ops.Request) (any, error) { return report(ctx, r, s, db) },
		},
		{
			Name: "unpark", Command: true, About: `make parked events due again: {"ids":[1,2]} or {"all":true}`,
			Answer: func(ctx context.Context, request ops.Request) (any, error) {
				var which Unpark
				if err := request.Read(&which); err != nil {
					return nil, err
				}
				n, err := unpark(ctx, s.Table, db, request.Operator, which)
				r.Wake()
				return map[string]int64{"unparked": n}, err
			},
		},
		{
			Name: "republish", Command: true, About: `publish kept events again, a page at a time: {"since":"2026-12-01T09:00:00Z","run":"r1"}; go on with "after" while "more"`,
			Answer: func(ctx context.Context, request ops.Request) (any, error) {
				var order Republish
				if err := request.Read(&order); err != nil {
					return nil, err
				}
				return r.republish(ctx, request.Operator, order)
			},
		},
	}
}

func report(ctx context.Context, r *Relay, s Settings, db *pgxpool.Pool) (Report, error) {
	backlog, err := s.Table.Backlog(ctx, db)
	if err != nil {
		return Report{}, err
	}
	parked, err := s.Table.Parked(ctx, db, shownParked)
	if err != nil {
		return Report{}, err
	}
	answer := Report{
		Outbox: s.Table.String(), Stream: s.Stream,
		Waiting: backlog.Waiting, OldestSeconds: backlog.Oldest.Seconds(),
		Parked: backlog.Parked, ParkedRows: parked,
	}
	if state := r.State(); !state.Paused.IsZero() {
		answer.PausedSince, answer.PauseReason = &state.Paused, state.Reason
	}
	return answer, nil
}

// unpark does what operator commands and records it in the same transaction.
func unpark(ctx context.Context, table outbox.Table, db *pgxpool.Pool, operator string, which Unpark) (n int64, err error) {
	if which.All == (len(which.IDs) > 0) {
		return 0, &ops.BadRequestError{Text: `say which: {"ids":[1,2]} or {"all":true}`}
	}
	err = pgdb.InTx(ctx, db, func(ctx context.Context, tx pgx.Tx) error {
		n, err = table.Unpark(ctx, tx, which.IDs...)
		if err != nil {
			return err
		}
		return ops.Record(ctx, tx, operator, "unpark", which, n)
	})
	return n, err
}
