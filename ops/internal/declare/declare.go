// Package declare is `slotwise topology apply`: it keeps streams and consumers as the code
// and teams.yaml declare them, so that a wiped store heals without a person.
package declare

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/pkg/logs"
	"github.com/slotwise/slotwise/pkg/retry"
	"github.com/slotwise/slotwise/pkg/topology"
	"go.uber.org/zap"
)

// passTimeout bounds one look at all streams and consumers.
const passTimeout = 30 * time.Second

// ErrUsage says that the command line or the settings are wrong.
var ErrUsage = errors.New("wrong usage")

// Apply runs `topology apply`: once, or with --every until ctx ends.
func Apply(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	flags := flag.NewFlagSet("topology apply", flag.ContinueOnError)
	flags.SetOutput(out)
	every := flags.Duration("every", 0, "look again so often, until stopped; default: once")
	file := flags.String("teams", "", "file that declares the consumers of teams")
	env := config.New("slotwise topology apply", getenv)
	servers := bus.Read(env, "topology")
	sizes := topology.Sizes{
		Replicas:         env.Int("STREAM_REPLICAS", 1, 1, 5, "copies of each stream; 3 in production"),
		BookingsMaxBytes: int64(env.Int("BOOKINGS_MAX_BYTES", 0, 0, 1<<50, "most bytes in BOOKINGS; 0: no limit")),
	}
	level := logs.Read(env)
	if env.Answer(args, out) {
		fmt.Fprintln(out, "\nFlags:")
		flags.PrintDefaults()
		return nil
	}
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	consumers, err := teams(*file)
	if err = errors.Join(err, env.Err()); err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	log, err := logs.New("topology", level)
	if err != nil {
		return err //nolint:wrapcheck // it says what
	}
	d := declaration{streams: topology.Streams(sizes), consumers: append(topology.Consumers(), consumers...), log: log}
	if *every == 0 {
		return d.once(ctx, servers)
	}
	return d.keep(ctx, servers, *every)
}

// teams reads the consumers that file declares; no file declares none.
func teams(file string) ([]topology.Consumer, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file) //nolint:gosec // the operator's own
	if err != nil {
		return nil, fmt.Errorf("read teams: %w", err)
	}
	all, err := parseTeams(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return all, nil
}

// declaration is what there should be.
type declaration struct {
	streams   []topology.Stream
	consumers []topology.Consumer
	log       *zap.Logger
}

// once applies it and fails when that can't be done now. A denied permission ends it: the
// server tells that apart from the call, which would only time out.
func (d declaration) once(ctx context.Context, servers bus.Settings) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	nc, err := bus.Dial(servers, d.log, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			end(err)
			return
		}
		d.log.Warn("nats reports an error", zap.Error(err))
	}))
	if err != nil {
		return err //nolint:wrapcheck // it says what
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	err = d.apply(ctx, js)
	if denied := context.Cause(ctx); err != nil && errors.Is(denied, nats.ErrPermissionViolation) {
		return fmt.Errorf("the NATS user of NATS_NKEY_FILE or NATS_URL may not do this, the user topology may: %w", denied)
	}
	return err
}

// keep applies it again and again. A server that is away is waited for; every failure is one
// line, and the waits between failures grow to the interval.
func (d declaration) keep(ctx context.Context, servers bus.Settings, every time.Duration) error {
	nc, err := bus.Connect(servers, d.log, nil)
	if err != nil {
		return err //nolint:wrapcheck // it says what
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	wait := retry.Backoff{Base: 250 * time.Millisecond, Max: every}
	for failures := 0; ; {
		pause := every
		switch {
		case !nc.IsConnected(): // the connection logs its own tries
			pause = wait.Delay(1)
		default:
			if err := d.apply(ctx, js); err != nil && ctx.Err() == nil {
				failures++
				pause = wait.Delay(failures)
				d.log.Warn("topology not applied", zap.Error(err), zap.Duration("wait", pause))
			} else {
				failures = 0
			}
		}
		if retry.Sleep(ctx, pause) != nil {
			return nil
		}
	}
}

func (d declaration) apply(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	written, err := topology.Apply(ctx, js, d.streams, d.consumers)
	for _, what := range written {
		d.log.Info("topology written", zap.String("what", what))
	}
	return err //nolint:wrapcheck // it says what
}
