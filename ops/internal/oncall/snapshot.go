package oncall

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/topology"
	"go.uber.org/zap"
)

// stalled is how long the stream may bring nothing before snapshot gives up.
const stalled = 20 * time.Second

// snapshot writes the event with the highest version of each booking that BOOKINGS holds, in
// the order of the bookings' ids. It keeps them in memory, about a kilobyte each, and reads the
// stream up to where it ended at the start.
func snapshot(ctx context.Context, c *call) error {
	if err := c.alone(); err != nil {
		return err
	}
	_, where, env := settings(c.getenv)
	if err := env.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	nc, err := bus.Dial(where, zap.NewNop(), nats.NoReconnect())
	if err != nil {
		return fmt.Errorf("%w (NATS_URL, NATS_NKEY_FILE)", err)
	}
	defer nc.Close()
	last, err := lastEvents(ctx, nc)
	if err != nil {
		return fmt.Errorf("read stream %s: %w", topology.Bookings, err)
	}
	if len(last) == 0 {
		return fmt.Errorf("%w: stream %s holds no event", ErrNothing, topology.Bookings)
	}
	out := bufio.NewWriter(c.out)
	for _, booking := range slices.Sorted(maps.Keys(last)) {
		body, err := last[booking].Encode()
		if err != nil {
			return err //nolint:wrapcheck // it says what
		}
		fmt.Fprintf(out, "%s\n", body)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

// lastEvents reads the stream and keeps the event with the highest version of each booking.
// What can't be read is passed over: the notifier holds it, for a person.
func lastEvents(ctx context.Context, nc *nats.Conn) (map[string]event.Event, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := js.Stream(ctx, topology.Bookings)
	if err != nil {
		return nil, err
	}
	last, end := map[string]event.Event{}, stream.CachedInfo().State
	if end.Msgs == 0 {
		return last, nil
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	for {
		m, err := messages.Next(jetstream.NextMaxWait(stalled))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		if e, err := event.Decode(m.Data()); err == nil && e.Data.Version > last[e.Data.Booking].Data.Version {
			last[e.Data.Booking] = e
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, errors.Join(errors.New("a message without a place in the stream"), err)
		}
		if meta.Sequence.Stream >= end.LastSeq || meta.NumPending == 0 {
			return last, nil
		}
	}
}
