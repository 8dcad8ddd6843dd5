package topology

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// Apply makes the server's streams and consumers what they are declared to be, and returns
// what it had to write, such as "created stream BOOKINGS"; nothing when all was in order.
// What could not be applied does not keep it from the rest, unless ctx has ended; the errors
// are joined.
func Apply(ctx context.Context, js jetstream.JetStream, streams []Stream, consumers []Consumer) (written []string, err error) {
	var steps []func(context.Context, jetstream.JetStream) (written string, err error)
	for _, s := range streams {
		steps = append(steps, s.apply)
	}
	for _, c := range consumers {
		steps = append(steps, c.apply)
	}
	var errs []error
	for _, apply := range steps {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("not all was applied: %w", context.Cause(ctx)))
			break
		}
		what, err := apply(ctx, js)
		if what != "" && err == nil {
			written = append(written, what)
		}
		errs = append(errs, err)
	}
	return written, errors.Join(errs...)
}

func (s Stream) apply(ctx context.Context, js jetstream.JetStream) (written string, err error) {
	var config jetstream.StreamConfig
	stream, err := js.Stream(ctx, s.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		config.Name = s.Name
		s.Shape(&config)
		if _, err := js.CreateStream(ctx, config); err != nil {
			return "", fmt.Errorf("create stream %s: %w", s.Name, err)
		}
		return "created stream " + s.Name, nil
	case err != nil:
		return "", fmt.Errorf("ask for stream %s: %w", s.Name, err)
	}
	have := stream.CachedInfo().Config
	config = have
	config.Subjects = slices.Clone(have.Subjects)
	s.Shape(&config)
	if reflect.DeepEqual(have, config) {
		return "", nil
	}
	if _, err := js.UpdateStream(ctx, config); err != nil {
		return "", fmt.Errorf("update stream %s: %w", s.Name, err)
	}
	return "updated stream " + s.Name, nil
}

func (c Consumer) apply(ctx context.Context, js jetstream.JetStream) (written string, err error) {
	var config jetstream.ConsumerConfig
	consumer, err := js.Consumer(ctx, c.Stream, c.Name)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		config.Durable = c.Name
		c.Shape(&config)
		if _, err := js.CreateConsumer(ctx, c.Stream, config); err != nil {
			return "", fmt.Errorf("create consumer %s: %w", c.Name, err)
		}
		return "created consumer " + c.Name, nil
	case err != nil:
		return "", fmt.Errorf("ask for consumer %s: %w", c.Name, err)
	}
	have := consumer.CachedInfo().Config
	config = have
	c.Shape(&config)
	if reflect.DeepEqual(have, config) {
		return "", nil
	}
	if _, err := js.UpdateConsumer(ctx, c.Stream, config); err != nil {
		return "", fmt.Errorf("update consumer %s: %w", c.Name, err)
	}
	return "updated consumer " + c.Name, nil
}
