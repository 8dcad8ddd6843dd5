package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/retry"
	"go.uber.org/zap"
)

// PoisonError says that a message can never be handled, and why. Return it wrapped or plain.
type PoisonError struct{ Reason string }

// Error is the reason.
func (e *PoisonError) Error() string { return "poison message: " + e.Reason }

// Poison returns a [*PoisonError] with the reason.
func Poison(reason string) error { return &PoisonError{Reason: reason} }

// Loop handles the messages of one durable consumer. Set all fields without a default.
type Loop struct {
	JS       jetstream.JetStream
	Stream   string
	Consumer string

	// Handle is given one to Max messages, in the order of delivery. When it fails on
	// several, each is handed to it again alone, so that one bad message harms only itself.
	// Its context does not end with Run's: what was begun is finished.
	Handle func(ctx context.Context, msgs []jetstream.Msg) error

	Max     int           // most messages a call; default 1
	Timeout time.Duration // of one call; default 20 s. Must be less than the consumer's AckWait
	Again   retry.Backoff // delay of a message that failed; default 1 s to 60 s
	Log     *zap.Logger
}

// Run handles messages until ctx ends and returns nil then; those already fetched are
// finished first. It waits for a consumer that is not there and reopens one that was deleted.
func (l Loop) Run(ctx context.Context) error {
	l = l.withDefaults()
	wait := retry.Backoff{Base: 250 * time.Millisecond, Max: 10 * time.Second}
	for n := 1; ; n++ {
		consumer, err := l.open(ctx)
		if err == nil {
			n = 1
			err = l.consume(ctx, consumer)
		}
		if stopped(ctx) {
			return nil
		}
		pause := wait.Delay(n)
		l.Log.Warn("consumer is not there", zap.String("stream", l.Stream), zap.String("consumer", l.Consumer), zap.Error(err), zap.Duration("wait", pause))
		_ = retry.Sleep(ctx, pause) // a stop ends it early
	}
}

func stopped(ctx context.Context) bool { return ctx.Err() != nil }

func (l Loop) withDefaults() Loop {
	if l.Max == 0 {
		l.Max = 1
	}
	if l.Timeout == 0 {
		l.Timeout = 20 * time.Second
	}
	if l.Again == (retry.Backoff{}) {
		l.Again = retry.Backoff{Base: time.Second, Max: time.Minute}
	}
	return l
}

func (l Loop) open(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	consumer, err := l.JS.Consumer(ctx, l.Stream, l.Consumer)
	if err != nil {
		return nil, fmt.Errorf("open consumer: %w", err)
	}
	return consumer, nil
}

// consume handles messages until ctx ends or the consumer is gone.
func (l Loop) consume(ctx context.Context, consumer jetstream.Consumer) error {
	messages, err := consumer.Messages(
		jetstream.PullMaxMessages(l.Max), // no more: messages in the buffer age, and a stop must finish them
		jetstream.PullExpiry(5*time.Second),
		jetstream.PullHeartbeat(2*time.Second))
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, func() { l.finish(messages) })()
	for {
		msgs, err := l.next(messages)
		if len(msgs) > 0 {
			l.handle(ctx, msgs)
		}
		switch {
		case err == nil:
		case errors.Is(err, jetstream.ErrNoHeartbeat): // it asks again by itself
			l.Log.Debug("consumer is silent", zap.String("consumer", l.Consumer))
		default:
			return fmt.Errorf("next message: %w", err)
		}
	}
}

// finish ends the messages: behind those that were fetched, or at once when nothing could be
// acknowledged.
func (l Loop) finish(messages jetstream.MessagesContext) {
	if l.JS.Conn().IsConnected() {
		messages.Drain()
	} else {
		messages.Stop()
	}
}

// gatherTime is how long a call of Handle waits for more messages than one.
const gatherTime = 100 * time.Microsecond

// next waits for a message and returns it with those that have arrived as well, Max in all.
func (l Loop) next(messages jetstream.MessagesContext) ([]jetstream.Msg, error) {
	first, err := messages.Next()
	if err != nil {
		return nil, err
	}
	msgs := []jetstream.Msg{first}
	for len(msgs) < l.Max {
		more, err := messages.Next(jetstream.NextMaxWait(gatherTime))
		if errors.Is(err, nats.ErrTimeout) {
			break
		}
		if err != nil {
			return msgs, err
		}
		msgs = append(msgs, more)
	}
	return msgs, nil
}

// handle brings every message to one of the outcomes.
func (l Loop) handle(ctx context.Context, msgs []jetstream.Msg) {
	err := l.call(ctx, msgs)
	poison, never := errors.AsType[*PoisonError](err)
	switch {
	case err == nil:
		l.ack(ctx, msgs)
	case len(msgs) > 1:
		l.handleAlone(ctx, msgs, err)
	case never:
		l.end(msgs[0], poison)
	default:
		l.putBack(msgs, err)
	}
}

// handleAlone handles one by one what failed together with err. When the trouble is not one
// message's (a database that is away lets each fail after a while), the rest is put back: it
// must not keep a stop waiting, nor age here.
func (l Loop) handleAlone(ctx context.Context, msgs []jetstream.Msg, err error) {
	over := time.Now().Add(l.Timeout)
	var later []jetstream.Msg
	for i, m := range msgs {
		if stopped(ctx) || time.Now().After(over) {
			later = append(later, msgs[i:]...)
			break
		}
		alone := l.call(ctx, msgs[i:i+1])
		poison, never := errors.AsType[*PoisonError](alone)
		switch {
		case alone == nil:
			l.ack(ctx, msgs[i:i+1])
		case never:
			l.end(m, poison)
		default:
			later, err = append(later, m), alone
		}
	}
	if len(later) > 0 {
		l.putBack(later, err)
	}
}

// call does not pass a stop on: it must not cut a message in half. The timeout bounds it.
func (l Loop) call(ctx context.Context, msgs []jetstream.Msg) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.Timeout)
	defer cancel()
	return l.Handle(ctx, msgs)
}

func (l Loop) ack(ctx context.Context, msgs []jetstream.Msg) {
	last := len(msgs) - 1
	var errs []error
	for _, m := range msgs[:last] {
		errs = append(errs, m.Ack())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	errs = append(errs, msgs[last].DoubleAck(ctx))
	if err := errors.Join(errs...); err != nil {
		l.Log.Warn("messages may come again: not acknowledged", zap.String("consumer", l.Consumer), zap.Int("messages", len(msgs)), zap.Error(err))
	}
}

// end gives the message up.
func (l Loop) end(m jetstream.Msg, poison *PoisonError) {
	l.Log.Error("message ended", zap.String("consumer", l.Consumer), zap.String("subject", m.Subject()), zap.String("reason", poison.Reason))
	l.noteSend(m.TermWithReason(poison.Reason))
}

// putBack asks for the messages again, each after a delay of its own.
func (l Loop) putBack(msgs []jetstream.Msg, err error) {
	for _, m := range msgs {
		l.noteSend(m.NakWithDelay(l.Again.Delay(deliveries(m))))
	}
	l.Log.Warn("messages put back", zap.String("consumer", l.Consumer), zap.Int("messages", len(msgs)),
		zap.String("subject", msgs[0].Subject()), zap.Int("delivered", deliveries(msgs[0])), zap.Error(err))
}

// deliveries is how often the message has been delivered, up to 64.
func deliveries(m jetstream.Msg) int {
	meta, err := m.Metadata()
	if err != nil {
		return 1
	}
	return int(min(meta.NumDelivered, 64)) //nolint:gosec // at most 64
}

// noteSend logs an answer that could not be sent; the message comes again after AckWait.
func (l Loop) noteSend(err error) {
	if err != nil {
		l.Log.Warn("answer not sent", zap.String("consumer", l.Consumer), zap.Error(err))
	}
}
