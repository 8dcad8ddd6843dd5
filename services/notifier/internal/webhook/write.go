package webhook

import (
	"context"
	"time"

	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/pkg/retry"
	"go.uber.org/zap"
)

// mostEnds is how many results one transaction writes.
const mostEnds = 200

// writeLoop writes whatever results have come in, until ends is closed.
func (s *Sender) writeLoop(ctx context.Context) {
	for first := range s.ends {
		batch := []end{first}
		for len(batch) < mostEnds {
			select {
			case e, open := <-s.ends:
				if open {
					batch = append(batch, e)
					continue
				}
			default:
			}
			break
		}
		s.write(ctx, batch)
	}
}

// write writes results, for as long as it takes: what became of a delivery must not be
// forgotten because PostgreSQL is away or we are told to stop.
func (s *Sender) write(ctx context.Context, ends []end) {
	wait := retry.Backoff{Base: 100 * time.Millisecond, Max: 5 * time.Second}
	for n := 1; ; n++ {
		off, err := s.tryWrite(ctx, ends)
		s.tell(off)
		if err == nil {
			break
		}
		pause := wait.Delay(n)
		s.logger.Warn("webhooks' results can't be written", zap.Int("results", len(ends)), zap.Error(err), zap.Duration("wait", pause))
		_ = retry.Sleep(ctx, pause) // ctx ends after this loop
	}
	for _, e := range ends {
		s.inHand.Add(-1)
		if e.hand.Failing {
			s.failing.Add(-1)
		}
	}
	select {
	case s.looks <- struct{}{}: // connections are free, and endpoints may take more
	default:
	}
}

func (s *Sender) tryWrite(ctx context.Context, ends []end) ([]disabled, error) {
	ctx, cancel := context.WithTimeout(ctx, pgdb.TxTimeout)
	defer cancel()
	return s.writeOnce(ctx, ends)
}

// tell counts and logs the endpoints that were disabled. Their owners get a mail; here the
// reason would be their receiver's words.
func (s *Sender) tell(off []disabled) {
	for _, d := range off {
		s.metrics.disabled.Inc()
		s.logger.Warn("endpoint disabled: it only failed, or is gone", zap.String("endpoint", d.ID))
	}
}

// note counts and logs how a try ended.
func (s *Sender) note(h Hand, e ending) {
	label := s.metrics.labels.of(h.Endpoint)
	s.metrics.tries.WithLabelValues(label, string(e.outcome)).Inc()
	if e.outcome == accepted {
		s.metrics.delay.Observe(max(0, time.Since(h.DueAt).Seconds()))
		return
	}
	s.metrics.failures.WithLabelValues(label, string(e.kind)).Inc()
	if e.outcome == cut {
		s.metrics.marks.WithLabelValues("cut off").Inc()
	}
	s.logger.Info("webhook not accepted",
		zap.String("key", h.Key), zap.Int("hand", h.N), zap.Int("attempts", h.Attempts),
		zap.String("outcome", string(e.outcome)), zap.String("kind", string(e.kind)), zap.Int("status", e.status))
}
