package send

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/pkg/retry"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"go.uber.org/zap"
)

// live are the hands whose results are not written yet.
type live struct {
	mu    sync.Mutex
	hands map[name]sendlog.Hand
}

type name struct{ key, token string }

func (l *live) add(hands []sendlog.Hand) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hands == nil {
		l.hands = map[name]sendlog.Hand{}
	}
	for _, h := range hands {
		l.hands[name{h.Key, h.Token}] = h
	}
}

func (l *live) remove(ends []end) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range ends {
		delete(l.hands, name{e.hand.Key, e.hand.Token})
	}
}

func (l *live) all() []sendlog.Hand {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.hands))
}

// renewLoop renews the leases of what is in hand. A renewal that fails is tried again in its
// turn: a lease outlives two of them.
func (s *Sender) renewLoop(ctx context.Context) {
	every := s.log.Times().Renew
	for retry.Sleep(ctx, every) == nil {
		hands := s.live.all()
		if len(hands) == 0 {
			continue
		}
		if err := s.renew(ctx, hands, every); err != nil && ctx.Err() == nil {
			s.logger.Warn("leases can't be renewed", zap.Int("hands", len(hands)), zap.Error(err))
		}
	}
}

func (s *Sender) renew(ctx context.Context, hands []sendlog.Hand, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return s.log.Renew(ctx, hands)
}

// sweepLoop marks hands whose lease is over, anybody's, and once an hour forgets old messages.
func (s *Sender) sweepLoop(ctx context.Context) {
	every := s.log.Times().Sweep
	forget := time.Now()
	for retry.Sleep(ctx, every) == nil {
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.logger.Warn("leases can't be swept", zap.Error(err))
			continue
		}
		if time.Since(forget) < time.Hour {
			continue
		}
		forget = time.Now()
		if err := s.forget(ctx); err != nil && ctx.Err() == nil {
			s.logger.Warn("old messages can't be forgotten", zap.Error(err))
		}
	}
}

func (s *Sender) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pgdb.TxTimeout)
	defer cancel()
	marks, err := s.log.Sweep(ctx)
	s.metrics.marks.WithLabelValues("lease").Add(float64(marks))
	if marks > 0 {
		s.logger.Warn("mails taken over whose senders did not answer for them", zap.Int("marks", marks))
	}
	return err
}

func (s *Sender) forget(ctx context.Context) error {
	for n := 1; n > 0; {
		var err error
		tx, cancel := context.WithTimeout(ctx, pgdb.TxTimeout)
		n, err = s.log.Forget(tx)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}
