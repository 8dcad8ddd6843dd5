package send

import (
	"context"
	"errors"
	"time"

	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/pkg/retry"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"go.uber.org/zap"
)

// handLoop hands what is due to the lines that are free, and wants more lines when there are
// none. It looks when rows were planned or results written, when a line is free that it had
// missed, when the next mail is due, and every [sendlog.Times.Poll].
func (s *Sender) handLoop(ctx context.Context) {
	away := retry.Backoff{Base: s.backoff.Base, Max: 30 * time.Second}
	pace := newPace(s.settings.Rate, time.Now())
	for failures := 0; ; {
		wait, err := s.pass(ctx, pace)
		s.passed.Store(time.Now().UnixNano())
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			failures++
			wait = away.Delay(failures)
			s.logger.Warn("no mails can be handed", zap.Error(err), zap.Duration("wait", wait))
			_ = retry.Sleep(ctx, wait) // nobody may cut it short: PostgreSQL is away
			continue
		}
		failures = 0
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-s.log.Woken():
		case <-s.looks:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// pass hands until there is no line or no due mail left, and returns how long nothing will be
// due then.
func (s *Sender) pass(ctx context.Context, pace *pace) (time.Duration, error) {
	for ctx.Err() == nil {
		free := s.idle.len()
		if free == 0 {
			due, wait, err := s.next(ctx)
			if err != nil || !due {
				return wait, err
			}
			if s.starve() {
				return wait, nil
			}
			continue
		}
		more, err := s.hand(ctx, free, pace)
		if err != nil {
			return 0, err
		}
		switch {
		case more && s.starve():
			return s.log.Times().Poll, nil
		case more:
			continue
		}
		s.hungry.Store(false)
		_, wait, err := s.next(ctx)
		if turn, binds := pace.binds(); binds {
			wait = min(wait, turn)
		}
		return wait, err
	}
	return 0, nil
}

// starve notes that more is due than there are lines for. It reports false when one has come
// free meanwhile, too early to see that note.
func (s *Sender) starve() bool {
	s.hungry.Store(true)
	s.want()
	return s.idle.len() == 0
}

// hand hands to at most free lines.
func (s *Sender) hand(ctx context.Context, free int, pace *pace) (more bool, err error) {
	// A hand whose answer we do not wait for would be in nobody's hand until its lease ends.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pgdb.TxTimeout)
	defer cancel()
	hands, more, err := s.log.Hand(ctx, free, pace.allow(free, time.Now()))
	if err != nil {
		return false, err
	}
	s.passed.Store(time.Now().UnixNano())
	s.live.add(hands)
	for _, h := range hands {
		if h.Late {
			pace.spend(1)
		}
		if l := s.idle.pop(); l != nil {
			l.hand <- h
			continue
		}
		s.finish(h, ending{outcome: sendlog.Lost, words: "no connection is left", phase: phaseMail})
	}
	_, binds := pace.binds()
	s.pacing.Store(binds)
	return more, nil
}

func (s *Sender) next(ctx context.Context) (due bool, wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, pgdb.TxTimeout)
	defer cancel()
	return s.log.Next(ctx)
}

// errStuck is what [Sender.Live] says.
var errStuck = errors.New("the hand loop has not finished a pass for two minutes")

// Live is a check for the admin port. Passes end also while PostgreSQL or the mail server is
// away; a loop that has none is stuck.
func (s *Sender) Live(context.Context) error {
	if time.Since(time.Unix(0, s.passed.Load())) > 2*time.Minute {
		return errStuck
	}
	return nil
}
