package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/pkg/ops"
	"github.com/slotwise/slotwise/pkg/outbox"
)

// Republish is the request of ops.do.<operator>.republish: publish events again that are kept
// in the outbox, for a stream that has lost them. It goes page by page, so that no request
// takes long: ask again with After set to the answer's Last while there is More.
//
// Message ids get the run's name behind them, because the stream still knows the old ones for
// a while; the event's own id stays. The same page of the same run, asked for twice within the
// dedupe window, is stored once.
type Republish struct {
	Since time.Time `json:"since"` // events written then or later
	Run   string    `json:"run"`   // one word of the asker's, the same for all pages
	After int64     `json:"after,omitempty"`
	Limit int       `json:"limit,omitempty"` // of the page; default and most 1000
}

// Republished is the answer.
type Republished struct {
	Stored     int   `json:"stored"`     // new messages in the stream
	Duplicates int   `json:"duplicates"` // stored by an earlier try of this run
	Last       int64 `json:"last"`
	More       bool  `json:"more"`
}

func (r *Relay) republish(ctx context.Context, operator string, order Republish) (Republished, error) {
	if order.Since.IsZero() || id.Check(order.Run) != nil || len(order.Run) > 40 {
		return Republished{}, &ops.BadRequestError{Text: `say since when, and a name for the run: {"since":"2026-12-01T09:00:00Z","run":"r1"}`}
	}
	l := r.lanes[0] // its settings; the connection is one of our own
	if order.Limit < 1 || order.Limit > bus.MaxBatch {
		order.Limit = bus.MaxBatch
	}
	rows, err := l.table.Kept(ctx, l.db, order.Since, order.After, order.Limit)
	if err != nil || len(rows) == 0 {
		return Republished{Last: order.After}, err //nolint:wrapcheck // it says what
	}
	answer, err := l.again(rows, order.Run)
	answer.More = len(rows) == order.Limit
	if err != nil {
		return Republished{}, err
	}
	return answer, ops.Record(ctx, l.db, operator, "republish", order, int64(answer.Stored)) //nolint:wrapcheck // it says what
}

// again publishes the rows one by one under the run's ids and counts what was stored: a
// duplicate is acknowledged, but was there. Its error is the first refusal.
func (l *lane) again(rows []outbox.Row, run string) (Republished, error) {
	nc, err := l.dial()
	if err != nil {
		return Republished{}, err
	}
	defer nc.Close()
	p, err := bus.NewPublisher(nc)
	if err != nil {
		return Republished{}, err //nolint:wrapcheck // it says what
	}
	msgs := make([]*nats.Msg, len(rows))
	for i, row := range rows {
		msgs[i] = l.message(row)
		msgs[i].Header.Set(jetstream.MsgIDHeader, row.MessageID+"-again-"+run)
	}
	answer := Republished{Last: rows[len(rows)-1].ID}
	for i, a := range p.Publish(msgs) {
		switch {
		case a.Err != nil:
			return Republished{}, fmt.Errorf("republish %s: %w", rows[i].MessageID, a.Err)
		case a.Ack.Duplicate:
			answer.Duplicates++
		default:
			answer.Stored++
		}
	}
	return answer, nil
}
