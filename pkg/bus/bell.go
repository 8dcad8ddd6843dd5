package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Bell is the doorbell: a core NATS message that says "something was committed". It wakes a
// relay within a millisecond; losing it loses nothing, because the relay also polls.
type Bell struct {
	nc      *nats.Conn
	subject string
	pressed chan struct{}
}

// NewBell returns a bell on subject, which must lie outside of all streams. Give it a
// connection of its own that no probe asks: a frozen server holds the connection's mutex.
func NewBell(nc *nats.Conn, subject string) *Bell {
	return &Bell{nc: nc, subject: subject, pressed: make(chan struct{}, 1)}
}

// Ring asks for one message and returns at once. Rings that come close together are one.
func (b *Bell) Ring() {
	select {
	case b.pressed <- struct{}{}:
	default:
	}
}

// Run sends what was rung until ctx ends.
func (b *Bell) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.pressed:
			b.nc.Publish(b.subject, nil) //nolint:errcheck // the poll is the net
		}
	}
}

// Listen returns a channel that receives after one or more messages on subject, until stop
// is called.
func Listen(nc *nats.Conn, subject string) (rung <-chan struct{}, stop func(), err error) {
	rings := make(chan struct{}, 1)
	sub, err := nc.Subscribe(subject, func(*nats.Msg) {
		select {
		case rings <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("listen to doorbell: %w", err)
	}
	return rings, func() { sub.Unsubscribe() }, nil //nolint:errcheck // the connection may have gone
}
