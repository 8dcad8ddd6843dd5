package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/ops"
	"github.com/slotwise/slotwise/pkg/retry"
	"go.uber.org/zap"
)

// passTimeout bounds one pass, far above what a million bookings take.
const passTimeout = 10 * time.Minute

// Reconciler makes passes.
type Reconciler struct {
	pass  Pass
	every time.Duration
	log   *zap.Logger

	created prometheus.Counter
	failed  prometheus.Counter

	running sync.Mutex // one pass at a time
	mu      sync.Mutex
	ended   time.Time // the last attempt, however it ended
}

// New returns a reconciler that makes a pass at start and then every so often, and registers
// what it counts.
func New(pass Pass, every time.Duration, metrics prometheus.Registerer, log *zap.Logger) *Reconciler {
	r := &Reconciler{
		pass: pass, every: every, log: log, ended: time.Now(),
		created: prometheus.NewCounter(prometheus.CounterOpts{Name: "slotwise_reconcile_created_total", Help: "Schedules that were missing and were made again."}),
		failed:  prometheus.NewCounter(prometheus.CounterOpts{Name: "slotwise_reconcile_failures_total", Help: "Passes that did not come to their end."}),
	}
	metrics.MustRegister(r.created, r.failed, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "slotwise_reconcile_age_seconds", Help: "Time since the last pass ended.",
	}, func() float64 { return r.age(time.Now()).Seconds() }))
	return r
}

// Run makes passes until ctx ends.
func (r *Reconciler) Run(ctx context.Context) error {
	wait := retry.Backoff{Base: 5 * time.Second, Max: time.Minute}
	for failures := 0; ; {
		pause := r.every
		if _, err := r.Pass(ctx); err != nil && ctx.Err() == nil {
			failures++
			pause = min(pause, wait.Delay(failures))
			r.log.Warn("reconcile failed", zap.Error(err), zap.Duration("wait", pause))
		} else {
			failures = 0
		}
		if retry.Sleep(ctx, pause) != nil {
			return nil //nolint:nilerr // ctx has ended
		}
	}
}

// Pass makes one pass, after the one that may be running.
func (r *Reconciler) Pass(ctx context.Context) (Result, error) {
	r.running.Lock()
	defer r.running.Unlock()
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	result, err := r.pass.Run(ctx)
	r.created.Add(float64(result.Created))
	if err != nil {
		r.failed.Inc()
	}
	r.mu.Lock()
	r.ended = time.Now()
	r.mu.Unlock()
	if result.Created > 0 {
		r.log.Info("schedules made again", zap.Int("created", result.Created), zap.Int("looked", result.Looked))
	}
	return result, err
}

func (r *Reconciler) age(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.ended)
}

// Live fails when no pass has ended, well or badly, for far too long: the process is stuck.
func (r *Reconciler) Live(context.Context) error {
	if age := r.age(time.Now()); age > r.every+2*passTimeout {
		return fmt.Errorf("no reconcile has ended for %s", age.Round(time.Second))
	}
	return nil
}

// Endpoint lets an operator ask for a pass now: ops.do.<operator>.reconcile.
func (r *Reconciler) Endpoint() ops.Endpoint {
	return ops.Endpoint{
		Name: "reconcile", Command: true, Timeout: passTimeout, About: "make the schedules again that are missing; answers how many",
		Answer: func(ctx context.Context, request ops.Request) (any, error) {
			result, err := r.Pass(ctx)
			if err != nil {
				return nil, err
			}
			if err := ops.Record(ctx, r.pass.DB, request.Operator, "reconcile", nil, int64(result.Created)); err != nil {
				return nil, err //nolint:wrapcheck // it says what
			}
			return result, nil
		},
	}
}
