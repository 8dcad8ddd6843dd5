package webhook

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/pkg/retry"
	"go.uber.org/zap"
)

// Sender sends the webhooks of a send log. Make one with [New].
type Sender struct {
	pool     *pgxpool.Pool
	settings Settings
	times    Times
	client   *client
	woken    <-chan struct{}
	logger   *zap.Logger
	metrics  *metrics

	inHand  atomic.Int64  // hands whose results are not written
	failing atomic.Int64  // of them for endpoints that fail
	looks   chan struct{} // the hand loop should look again
	ends    chan end      // what the write loop has to write
	passed  atomic.Int64  // when the hand loop last finished a pass, in Unix nanoseconds
	drained context.Context
	drain   context.CancelFunc
}

// New returns a sender that counts in registry. It looks for work when woken receives, and every
// [Times.Poll]; the times must have passed [Times.Check].
func New(pool *pgxpool.Pool, settings Settings, times Times, woken <-chan struct{}, logger *zap.Logger, registry prometheus.Registerer) *Sender {
	return newSender(pool, settings, times, woken, logger, registry, nil)
}

func newSender(pool *pgxpool.Pool, settings Settings, times Times, woken <-chan struct{}, logger *zap.Logger, registry prometheus.Registerer, resolver *net.Resolver) *Sender {
	s := &Sender{
		pool: pool, settings: settings, times: times, client: newClient(settings, times, resolver), woken: woken, logger: logger,
		looks: make(chan struct{}, 1), ends: make(chan end, settings.Connections),
	}
	s.metrics = newMetrics(s, registry)
	s.passed.Store(time.Now().UnixNano())
	s.drained, s.drain = context.WithCancel(context.Background())
	return s
}

// Run sends until ctx ends. Then no more is handed; deliveries in flight get the time that the
// settings say, after which they are cut off; every result is written, however long that
// takes. A sender runs once.
func (s *Sender) Run(ctx context.Context) error {
	tend, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(s.settings.Drain, s.drain) })()
	defer s.drain()
	defer s.client.close()

	var writing, tending sync.WaitGroup
	writing.Go(func() { s.writeLoop(tend) })
	tending.Go(func() { s.sweepLoop(tend) })

	s.handLoop(ctx)
	close(s.ends)
	writing.Wait()
	stop()
	tending.Wait()
	return nil
}

// handLoop hands what is due to as many deliveries as may run, each in a goroutine of its own,
// and returns when the last of them has ended. It looks when webhooks were planned or results
// written, when the next one is due, and every [Times.Poll].
func (s *Sender) handLoop(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	away := retry.Backoff{Base: time.Second, Max: 30 * time.Second}
	for failures := 0; ; {
		wait, err := s.pass(ctx, &running)
		s.passed.Store(time.Now().UnixNano())
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			failures++
			wait = away.Delay(failures)
			s.logger.Warn("no webhooks can be handed", zap.Error(err), zap.Duration("wait", wait))
			_ = retry.Sleep(ctx, wait) // nobody may cut it short: PostgreSQL is away
			continue
		}
		failures = 0
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-s.woken:
		case <-s.looks:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// breath is the shortest time between two looks at something that is due and can't be handed:
// somebody else has it under a lock.
const breath = 100 * time.Millisecond

// pass hands once, and returns how long nothing else will be due.
func (s *Sender) pass(ctx context.Context, running *sync.WaitGroup) (time.Duration, error) {
	free := s.settings.Connections - int(s.inHand.Load())
	if free <= 0 || ctx.Err() != nil {
		return s.times.Poll, nil // a result wakes us
	}
	// Endpoints that fail, and hang most likely, share half of the connections.
	failing := max(0, s.settings.Connections/2-int(s.failing.Load()))
	// A hand whose answer we do not wait for would be in nobody's hand until its lease ends.
	tx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pgdb.TxTimeout)
	defer cancel()
	hands, wait, err := s.hand(tx, free, failing)
	if err != nil {
		return 0, err
	}
	for _, h := range hands {
		s.inHand.Add(1)
		if h.Failing {
			s.failing.Add(1)
		}
		running.Go(func() { s.deliver(h) })
	}
	if len(hands) > 0 {
		return wait, nil
	}
	return max(wait, breath), nil
}

// deliver makes one try. A sender that was frozen since the hand does not send what somebody
// else may have taken over.
func (s *Sender) deliver(h Hand) {
	begun := time.Now()
	e := ending{outcome: lost, kind: kindInternal, words: "not tried: the lease is over"}
	if h.since(begun) < s.times.Lease-s.times.Timeout {
		e = s.client.try(s.drained, h)
		s.metrics.took.Observe(time.Since(begun).Seconds())
	}
	s.note(h, e)
	s.ends <- end{h, e}
}

// errStuck is what [Sender.Live] says.
var errStuck = errors.New("the webhooks' hand loop has not finished a pass for two minutes")

// Live is a check for the admin port. Passes end also while PostgreSQL is away or endpoints
// hang; a loop that has none is stuck.
func (s *Sender) Live(context.Context) error {
	if time.Since(time.Unix(0, s.passed.Load())) > 2*time.Minute {
		return errStuck
	}
	return nil
}
