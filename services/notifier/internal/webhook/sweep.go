package webhook

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/pkg/retry"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"go.uber.org/zap"
)

//go:embed sweep.sql
var sweepSQL string

// sweepLoop marks deliveries whose lease is over, anybody's, lets deliveries follow their
// endpoints, deletes secrets that have expired, and learns which endpoints have a name of their own in the metrics.
func (s *Sender) sweepLoop(ctx context.Context) {
	for ; ctx.Err() == nil; _ = retry.Sleep(ctx, s.times.Sweep) {
		marks, err := s.sweep(ctx)
		s.metrics.marks.WithLabelValues("lease").Add(float64(marks))
		if marks > 0 {
			s.logger.Warn("webhooks taken over whose senders did not answer for them", zap.Int("marks", marks))
			select {
			case s.looks <- struct{}{}:
			default:
			}
		}
		if err != nil && ctx.Err() == nil {
			s.logger.Warn("webhooks can't be swept", zap.Error(err))
		}
	}
}

func (s *Sender) sweep(ctx context.Context) (marks int, err error) {
	ctx, cancel := context.WithTimeout(ctx, pgdb.TxTimeout)
	defer cancel()
	b := sendlog.Batch()
	b.Queue(sweepSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&marks) })
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return 0, fmt.Errorf("sweep webhooks: %w", err)
	}
	if err := s.tidy(ctx); err != nil {
		return marks, err
	}
	if err := s.metrics.labels.learn(ctx, s.pool); err != nil {
		return marks, err
	}
	return marks, nil
}

// tidied is how many rows notifier.tidy_endpoints moves at most.
const tidied = 1000

// tidy lets deliveries follow their endpoints, for as long as there are many to move and there
// is time; the next sweep goes on.
func (s *Sender) tidy(ctx context.Context) error {
	for n := tidied; n >= tidied; {
		b := sendlog.Batch()
		b.Queue(`select notifier.tidy_endpoints()`).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
		if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("tidy endpoints: %w", err)
		}
	}
	return nil
}
