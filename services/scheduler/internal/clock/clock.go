// Package clock compares NATS's clock with the database's.
//
// Reminders are written for a time on the database's clock and fired by NATS's. A NATS clock
// that is ahead wakes the notifier early, which then waits by the database's clock; one that is
// behind wakes it late, until the notifier's audit takes over. So a wrong clock loses nothing
// and makes reminders late by minutes, and nobody would know why: this tells.
package clock

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/retry"
	"go.uber.org/zap"
)

const (
	// Every is how often the clocks are compared.
	Every = time.Minute
	// tolerated is how far apart they may be: NTP keeps milliseconds, a reminder is due to the
	// minute.
	tolerated = 2 * time.Second
	// timeout bounds one reading. An answer that took longer would tell little.
	timeout = 5 * time.Second
)

// Reading asks a clock what time it is.
type Reading func(context.Context) (time.Time, error)

// Watch compares two clocks.
type Watch struct {
	nats, database Reading
	every          time.Duration
	skew           prometheus.Gauge
	log            *zap.Logger
}

// New returns a watch that compares every so often and registers the gauge.
func New(nats, database Reading, every time.Duration, metrics prometheus.Registerer, log *zap.Logger) *Watch {
	w := &Watch{nats: nats, database: database, every: every, log: log, skew: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "slotwise_nats_clock_skew_seconds", Help: "NATS's clock minus the database's, when they were last compared.",
	})}
	metrics.MustRegister(w.skew)
	return w
}

// Run compares until ctx ends. A clock that can't be read now is read again the next time:
// whoever can't do without NATS or PostgreSQL says that they are away.
func (w *Watch) Run(ctx context.Context) error {
	wrong := false
	for {
		if skew, err := w.compare(ctx); err == nil {
			w.skew.Set(skew.Seconds())
			if was := wrong; was != (skew.Abs() > tolerated) {
				wrong = !was
				w.tell(wrong, skew)
			}
		}
		if retry.Sleep(ctx, w.every) != nil {
			return nil //nolint:nilerr // ctx has ended
		}
	}
}

func (w *Watch) tell(wrong bool, skew time.Duration) {
	if wrong {
		w.log.Error("NATS's clock and the database's differ: reminders may be late", zap.Duration("nats_ahead_by", skew))
		return
	}
	w.log.Info("NATS's clock and the database's agree again", zap.Duration("nats_ahead_by", skew))
}

// compare reads both clocks, one right after the other, and returns how far NATS's is ahead.
// The time that the reading itself took is ours, so our own clock need not be right.
func (w *Watch) compare(ctx context.Context) (time.Duration, error) {
	nats, err := offset(ctx, w.nats)
	if err != nil {
		return 0, fmt.Errorf("read NATS's clock: %w", err)
	}
	database, err := offset(ctx, w.database)
	if err != nil {
		return 0, fmt.Errorf("read the database's clock: %w", err)
	}
	return nats - database, nil
}

// offset is how far a clock is ahead of ours: it was read half way between question and answer.
func offset(ctx context.Context, read Reading) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	asked := time.Now()
	there, err := read(ctx)
	if err != nil {
		return 0, err
	}
	return there.Sub(asked.Add(time.Since(asked) / 2)), nil
}
