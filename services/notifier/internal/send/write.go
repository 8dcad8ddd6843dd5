package send

import (
	"context"
	"time"

	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/pkg/retry"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/services/notifier/internal/suppress"
	"go.uber.org/zap"
)

// end is a hand and how it ended.
type end struct {
	hand   sendlog.Hand
	ending ending
}

// gone is the address, if the server said of it that there is no such mailbox; else empty.
func (e end) gone() string {
	if e.ending.outcome == sendlog.Rejected && e.ending.phase == phaseRcpt && suppress.Reply(e.ending.words) {
		return e.hand.To()
	}
	return ""
}

// mostEnds is how many results one transaction writes.
const mostEnds = 500

// finish passes a result on to the write loop.
func (s *Sender) finish(h sendlog.Hand, e ending) {
	s.note(h, e)
	s.ends <- end{h, e}
}

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

// write writes results, for as long as it takes: what became of a mail must not be forgotten
// because PostgreSQL is away or we are told to stop.
func (s *Sender) write(ctx context.Context, batch []end) {
	results := make([]sendlog.Result, len(batch))
	for i, e := range batch {
		results[i] = sendlog.Result{
			Key: e.hand.Key, Token: e.hand.Token, Outcome: e.ending.outcome, Answer: e.ending.words, Wait: e.ending.wait, Gone: e.gone(),
		}
	}
	wait := retry.Backoff{Base: 100 * time.Millisecond, Max: 5 * time.Second}
	for n := 1; ; n++ {
		err := s.writeOnce(ctx, results)
		if err == nil {
			s.live.remove(batch)
			return
		}
		pause := wait.Delay(n)
		s.logger.Warn("results can't be written", zap.Int("results", len(results)), zap.Error(err), zap.Duration("wait", pause))
		_ = retry.Sleep(ctx, pause) // ctx ends after this loop
	}
}

func (s *Sender) writeOnce(ctx context.Context, results []sendlog.Result) error {
	ctx, cancel := context.WithTimeout(ctx, pgdb.TxTimeout)
	defer cancel()
	marks, err := s.log.Write(ctx, results)
	s.metrics.marks.WithLabelValues("no answer").Add(float64(marks))
	return err
}

// note counts and logs a result.
func (s *Sender) note(h sendlog.Hand, e ending) {
	s.metrics.hands.WithLabelValues(string(e.outcome)).Inc()
	if e.outcome == sendlog.Accepted {
		s.metrics.delay.Observe(max(0, time.Since(h.DueAt).Seconds()))
		return
	}
	fields := []zap.Field{
		zap.String("key", h.Key), zap.Int("hand", h.N), zap.Int("attempts", h.Attempts),
		zap.String("outcome", string(e.outcome)), zap.String("phase", string(e.phase)), zap.Int("code", e.code),
	}
	if e.fate == account {
		s.metrics.account.Inc()
		s.logger.Error("mail server refuses the account", append(fields, zap.String("answer", e.words))...)
		return
	}
	s.logger.Warn("mail not accepted", fields...)
}
