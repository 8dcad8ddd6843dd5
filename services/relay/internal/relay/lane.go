package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/failpoint"
	"github.com/slotwise/slotwise/pkg/outbox"
	"go.uber.org/zap"
)

// lane claims and publishes, with a transaction and a connection of its own. It is for one
// goroutine at a time.
type lane struct {
	table   outbox.Table
	stream  string
	batch   int
	times   Times
	db      *pgxpool.Pool
	dial    func() (*nats.Conn, error)
	metrics *Metrics
	log     *zap.Logger

	nc    *nats.Conn // nil or closed: the next claim begins with a new one
	pub   *bus.Publisher
	alone bool // publish the next claim's rows one by one
}

// pass makes one claim and returns how many rows it had. With an error the relay has to
// pause; what could be published is marked all the same. A stop does not cut it in half.
func (l *lane) pass(ctx context.Context) (claimed int, err error) {
	if err := l.connect(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.times.Tx)
	defer cancel()
	claim := clock{began: time.Now(), limit: l.times.Claim}
	var f fate
	// Not pgdb.InTx: what was published can't be rolled back and run again under this clock.
	err = pgx.BeginFunc(ctx, l.db, func(tx pgx.Tx) error {
		rows, err := l.table.Claim(ctx, tx, l.batch)
		if err != nil || len(rows) == 0 {
			return err
		}
		claimed = len(rows)
		failpoint.Hit("relay.claimed")
		f = l.publish(l.pub, rows, claim)
		failpoint.Hit("relay.published")
		err = l.mark(ctx, tx, f)
		failpoint.Hit("relay.marked")
		return err
	})
	if f.pause != nil && !answered(f.pause) {
		l.disconnect()
	}
	if err != nil {
		return claimed, errors.Join(f.pause, fmt.Errorf("outbox: %w", err))
	}
	l.metrics.count(f, claimed, time.Since(claim.began))
	return claimed, f.pause
}

// mark writes what became of the claim's rows.
func (l *lane) mark(ctx context.Context, tx pgx.Tx, f fate) error {
	for _, r := range f.refused {
		n := r.row.Attempts + 1
		log := l.log.With(zap.Int64("row", r.row.ID), zap.String("message_id", r.row.MessageID), zap.Int("attempts", n), zap.String("reason", r.reason))
		if l.times.parks(n) {
			log.Error("event parked: refused for too long")
			if err := l.table.Park(ctx, tx, r.row.ID, r.reason); err != nil {
				return err
			}
			continue
		}
		wait := l.times.again(n)
		log.Warn("event refused", zap.Duration("wait", wait))
		if err := l.table.Refused(ctx, tx, r.row.ID, r.reason, wait); err != nil {
			return err
		}
	}
	if len(f.published) == 0 {
		return nil
	}
	return l.table.Published(ctx, tx, f.published)
}

// connect makes a connection for the claims to come, unless there is one.
func (l *lane) connect() error {
	if l.nc != nil && !l.nc.IsClosed() {
		return nil
	}
	l.disconnect()
	nc, err := l.dial()
	if err != nil {
		return err
	}
	pub, err := bus.NewPublisher(nc)
	if err != nil {
		nc.Close()
		return err
	}
	l.nc, l.pub = nc, pub
	return nil
}

func (l *lane) disconnect() {
	if l.nc != nil {
		l.nc.Close()
		l.nc, l.pub = nil, nil
	}
}
