package send

import (
	"context"
	"crypto/tls"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/retry"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"go.uber.org/zap"
)

// Render makes the mail of a hand: RFC 5322 bytes with CRLF line ends, not dot-stuffed, with
// the hand's token in a header. An error is final: the message is held for it, and its text
// is shown, so it must not hold a person.
type Render func(sendlog.Hand) ([]byte, error)

// ReturnPath is the envelope sender of a hand: the same for each hand of a row, because a
// changing one would be greylisted again and again.
type ReturnPath func(sendlog.Hand) string

// Sender sends the e-mails of a send log. Make one with [New].
type Sender struct {
	log        *sendlog.Log
	settings   Settings
	render     Render
	returnPath ReturnPath
	logger     *zap.Logger
	metrics    *metrics
	backoff    retry.Backoff
	tls        *tls.Config

	idle    idleLines
	wanted  chan struct{}   // somebody should open a connection
	looks   chan struct{}   // the hand loop should look again
	closed  atomic.Int32    // lines without a connection
	hungry  atomic.Bool     // the hand loop left something due that it had no line for
	pacing  atomic.Bool     // the backlog is being sent at SEND_RATE
	passed  atomic.Int64    // when the hand loop last finished a pass, in Unix nanoseconds
	ends    chan end        // what the write loop has to write
	live    live            // what is in hand
	drained context.Context // ends when dialogues have had their time after ctx ended
	drain   context.CancelFunc
}

// New returns a sender that counts in registry.
func New(log *sendlog.Log, settings Settings, render Render, returnPath ReturnPath, logger *zap.Logger, registry prometheus.Registerer) *Sender {
	times := log.Times()
	s := &Sender{
		log: log, settings: settings, render: render, returnPath: returnPath, logger: logger, metrics: newMetrics(registry),
		backoff: retry.Backoff{Base: times.Base, Max: times.Max},
		tls: &tls.Config{
			ServerName: settings.Server.Hostname(), RootCAs: settings.CAs, MinVersion: tls.VersionTLS12,
			ClientSessionCache: tls.NewLRUClientSessionCache(settings.Connections), // a replaced connection costs less
		},
		wanted: make(chan struct{}, 1), looks: make(chan struct{}, 1), ends: make(chan end, settings.Connections),
	}
	registry.MustRegister(log.Metrics(s.pacing.Load))
	s.closed.Store(int32(settings.Connections)) //nolint:gosec // read from 1 to 1000
	s.passed.Store(time.Now().UnixNano())
	s.drained, s.drain = context.WithCancel(context.Background())
	return s
}

// Run sends until ctx ends. Then no more is handed; dialogues in hand get the time that the
// settings say, after which their sockets are dropped; every result is written, however long
// that takes. A sender runs once.
func (s *Sender) Run(ctx context.Context) error {
	tend, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(s.settings.Drain, s.drain) })()
	defer s.drain()

	var handing, writing, tending sync.WaitGroup
	handing.Go(func() { s.handLoop(ctx) })
	for range s.settings.Connections {
		l := &line{s: s, hand: make(chan sendlog.Hand, 1)}
		handing.Go(func() { l.run(ctx) })
	}
	writing.Go(func() { s.writeLoop(tend) })
	tending.Go(func() { s.renewLoop(tend) })
	tending.Go(func() { s.sweepLoop(tend) })

	handing.Wait()
	close(s.ends)
	writing.Wait()
	stop()
	tending.Wait()
	return nil
}

// want asks for a connection, unless all are open; a request that nobody has taken yet is
// enough.
func (s *Sender) want() {
	if s.closed.Load() > 0 {
		signal(s.wanted)
	}
}

// look asks the hand loop to look again.
func (s *Sender) look() { signal(s.looks) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
