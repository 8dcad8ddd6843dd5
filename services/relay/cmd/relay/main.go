// Command relay moves the events of an outbox to JetStream.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/slotwise/slotwise/pkg/admin"
	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/pkg/logs"
	"github.com/slotwise/slotwise/pkg/ops"
	"github.com/slotwise/slotwise/pkg/outbox"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/services/relay/internal/relay"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Getenv, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
}

// run is main without the process: tests call it with their own settings.
func run(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills

	env := config.New("relay", getenv)
	settings := read(env)
	database := pgdb.Read(env, "relay", settings.Lanes+3) // besides: metrics, readiness, ops
	servers := bus.Read(env, "relay")
	doorbell := env.String("DOORBELL", topology.Doorbell, "NATS subject of the doorbell")
	addr := env.String("ADMIN_ADDR", ":9090", "address of /livez, /readyz and /metrics")
	level := logs.Read(env)
	if env.Answer(args, out) {
		return nil
	}
	if err := env.Err(); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	log, err := logs.New("relay", level)
	if err != nil {
		return err
	}
	log.Info("starting", env.Fields()...)

	watch := admin.New()
	db, err := pgdb.Open(ctx, database, watch)
	if err != nil {
		return err
	}
	defer db.Close()
	listening, err := bus.Connect(servers, log, watch)
	if err != nil {
		return err
	}
	defer listening.Close()

	r, err := relay.New(settings, db, publishing(servers, log), relay.NewMetrics(watch.Metrics(), settings.Table, db), log)
	if err != nil {
		return err
	}
	watch.Live("relay", r.Live)
	rung, deaf, err := bus.Listen(listening, doorbell)
	if err != nil {
		return err
	}
	defer deaf()
	done, err := ops.Serve(listening, "relay", "moves an outbox to JetStream", log, relay.Endpoints(r, settings, db)...)
	if err != nil {
		return err
	}
	defer done()

	g, ctx := errgroup.WithContext(ctx)
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	g.Go(func() error { return watch.Run(watching, addr, log) })
	g.Go(func() error {
		defer unwatch() // the admin port ends last
		return relayAll(ctx, r, settings.Table, db, rung, log)
	})
	return g.Wait()
}

func read(env *config.Reader) relay.Settings {
	table, err := outbox.In(env.String("OUTBOX_TABLE", "booking.outbox_events", "the outbox to relay, as schema.table"))
	if err != nil {
		env.Mistake("OUTBOX_TABLE", "must be of the form schema.table, in lower case")
	}
	return relay.Settings{
		Table:  table,
		Stream: env.String("RELAY_STREAM", topology.Bookings, "the stream that takes the outbox's subjects"),
		Batch:  env.Int("RELAY_BATCH", 1000, 1, bus.MaxBatch, "most events of a claim"),
		Lanes:  env.Int("RELAY_LANES", 2, 1, 4, "most claims at once"),
		Times:  relay.DefaultTimes(env.Duration("RELAY_POLL", 5*time.Second, 100*time.Millisecond, time.Minute, "how often to look without a doorbell")),
	}
}

// publishing returns how a lane connects: once. A connection that came back could carry what a
// frozen relay had in hand past the stream's dedupe window.
func publishing(s bus.Settings, log *zap.Logger) func() (*nats.Conn, error) {
	return func() (*nats.Conn, error) { return bus.Dial(s, log, nats.NoReconnect()) }
}

// relayAll waits for the outbox and relays it until ctx ends.
func relayAll(ctx context.Context, r *relay.Relay, table outbox.Table, db *pgxpool.Pool, rung <-chan struct{}, log *zap.Logger) error {
	schema, name, _ := strings.Cut(table.String(), ".")
	if err := pgdb.Await(ctx, log, db, pgdb.Readable(schema, name)); err != nil {
		return unlessStopped(ctx, err)
	}
	log.Info("relaying")
	return r.Run(ctx, rung)
}

// unlessStopped is err, or nil when ctx has ended: waiting was cut short by a stop.
func unlessStopped(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}
