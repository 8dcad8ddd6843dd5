package relay

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/slotwise/slotwise/pkg/outbox"
	"github.com/slotwise/slotwise/pkg/retry"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// Settings are what an installation chooses.
type Settings struct {
	Table  outbox.Table
	Stream string // the one stream that takes the outbox's subjects
	Batch  int    // most rows of a claim, up to bus.MaxBatch
	Lanes  int    // most claims at once
	Times  Times
}

// Relay moves one outbox to one stream.
type Relay struct {
	times   Times
	lanes   []*lane
	metrics *Metrics
	log     *zap.Logger
	woken   chan struct{}

	mu    sync.Mutex
	state State
}

// State is what a relay is at.
type State struct {
	LastPass time.Time // when the last pass ended, well or with a pause; zero before Run
	Paused   time.Time // since when; zero: it does not pause
	Reason   string    // why it pauses
}

// New returns a relay that reads db. It calls dial for each connection that it publishes on;
// they must be of the kind that never reconnects ([nats.NoReconnect]).
func New(s Settings, db *pgxpool.Pool, dial func() (*nats.Conn, error), metrics *Metrics, log *zap.Logger) (*Relay, error) {
	if err := s.Times.check(); err != nil {
		return nil, fmt.Errorf("relay's times: %w", err)
	}
	r := &Relay{times: s.Times, metrics: metrics, log: log, woken: make(chan struct{}, 1)}
	for range s.Lanes {
		r.lanes = append(r.lanes, &lane{
			table: s.Table, stream: s.Stream, batch: s.Batch, times: s.Times,
			db: db, dial: dial, metrics: metrics, log: log,
		})
	}
	return r, nil
}

// Run relays until ctx ends, and finishes the claims in hand then. It looks when rung
// receives, when [Relay.Wake] is called, and every poll.
func (r *Relay) Run(ctx context.Context, rung <-chan struct{}) error {
	defer r.disconnect()
	pauses := 0
	for ctx.Err() == nil {
		published := r.metrics.publishedSoFar()
		err := r.drain(ctx)
		if err == nil {
			pauses = 0
			r.resume()
			r.await(ctx, rung)
			continue
		}
		if r.metrics.publishedSoFar() > published {
			pauses = 0
		}
		pauses++
		wait := r.times.Pause.Delay(pauses)
		r.pause(err, wait)
		_ = retry.Sleep(ctx, wait) // a stop ends it early
	}
	return nil
}

// Wake makes the relay look at once, unless it pauses.
func (r *Relay) Wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

func (r *Relay) await(ctx context.Context, rung <-chan struct{}) {
	poll := time.NewTimer(r.times.Poll)
	defer poll.Stop()
	select {
	case <-ctx.Done():
	case <-rung:
	case <-r.woken:
	case <-poll.C:
	}
}

// drain makes passes until nothing is due. One lane does while claims are small; a full one
// calls the others.
func (r *Relay) drain(ctx context.Context) error {
	first := r.lanes[0]
	for ctx.Err() == nil {
		claimed, err := r.pass(ctx, first)
		if err != nil || claimed == 0 {
			return err
		}
		if claimed == first.batch && len(r.lanes) > 1 {
			if err := r.drainAll(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// drainAll makes passes on all lanes until none of them claims a full batch. An error of one
// ends the others after their pass.
func (r *Relay) drainAll(ctx context.Context) error {
	lanes, ctx := errgroup.WithContext(ctx)
	for _, l := range r.lanes {
		lanes.Go(func() error {
			for ctx.Err() == nil {
				claimed, err := r.pass(ctx, l)
				if err != nil || claimed < l.batch {
					return err
				}
			}
			return nil
		})
	}
	return lanes.Wait()
}

func (r *Relay) pass(ctx context.Context, l *lane) (claimed int, err error) {
	claimed, err = l.pass(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.LastPass = time.Now()
	return claimed, err
}

func (r *Relay) pause(err error, wait time.Duration) {
	r.log.Warn("relay pauses", zap.Error(err), zap.Duration("wait", wait))
	r.metrics.pauses.Inc()
	r.metrics.paused.Set(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Paused.IsZero() {
		r.state.Paused = time.Now()
	}
	r.state.Reason = err.Error()
}

func (r *Relay) resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Paused.IsZero() {
		return
	}
	r.log.Info("relay goes on", zap.Duration("paused", time.Since(r.state.Paused)))
	r.metrics.paused.Set(0)
	r.state.Paused, r.state.Reason = time.Time{}, ""
}

// State returns what the relay is at.
func (r *Relay) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Live fails when the relay has finished no pass for two minutes, well or with a pause: it is
// stuck, and a restart may help.
func (r *Relay) Live(context.Context) error {
	last := r.State().LastPass
	if age := time.Since(last); !last.IsZero() && age > r.times.Stuck {
		return fmt.Errorf("no pass for %s", age.Round(time.Second))
	}
	return nil
}

func (r *Relay) disconnect() {
	for _, l := range r.lanes {
		l.disconnect()
	}
}
