// Command scheduler keeps one scheduled message in JetStream for every reminder that is owed.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/admin"
	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/pkg/logs"
	"github.com/slotwise/slotwise/pkg/ops"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/services/scheduler/internal/clock"
	"github.com/slotwise/slotwise/services/scheduler/internal/reconcile"
	"github.com/slotwise/slotwise/services/scheduler/internal/remind"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Getenv, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scheduler:", err)
		os.Exit(1)
	}
}

// run is main without the process: tests call it with their own settings.
func run(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills

	env := config.New("scheduler", getenv)
	database := pgdb.Read(env, "scheduler", 4)
	servers := bus.Read(env, "scheduler")
	every := env.Duration("RECONCILE_EVERY", time.Hour, time.Second, 24*time.Hour, "how often missing schedules are looked for, beside at start")
	addr := env.String("ADMIN_ADDR", ":9090", "address of /livez, /readyz and /metrics")
	level := logs.Read(env)
	if env.Answer(args, out) {
		return nil
	}
	if err := env.Err(); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	log, err := logs.New("scheduler", level)
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
	nc, err := bus.Connect(servers, log, watch)
	if err != nil {
		return err
	}
	defer nc.Close()
	s, err := wire(nc, db, every, watch, log)
	if err != nil {
		return err
	}
	done, err := ops.Serve(nc, "scheduler", "keeps a scheduled message for every reminder owed", log, s.reconciler.Endpoint())
	if err != nil {
		return err
	}
	defer done()

	g, ctx := errgroup.WithContext(ctx)
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	g.Go(func() error { return watch.Run(watching, addr, log) })
	g.Go(func() error {
		defer unwatch() // the admin port ends last
		return s.run(ctx, db, log)
	})
	return g.Wait()
}

// scheduler is what the service runs.
type scheduler struct {
	follower   remind.Follower
	reconciler *reconcile.Reconciler
	clocks     *clock.Watch
}

// wire gives each of the two a writer of its own: a writer is for one goroutine.
func wire(nc *nats.Conn, db *pgxpool.Pool, every time.Duration, watch *admin.Server, log *zap.Logger) (scheduler, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return scheduler{}, fmt.Errorf("use JetStream: %w", err)
	}
	following, err := remind.NewWriter(nc)
	if err != nil {
		return scheduler{}, err
	}
	reconciling, err := remind.NewWriter(nc)
	if err != nil {
		return scheduler{}, err
	}
	created := prometheus.NewCounter(prometheus.CounterOpts{Name: "slotwise_reminders_scheduled_total", Help: "Schedules written because of an event."})
	watch.Metrics().MustRegister(created)
	s := scheduler{
		follower:   remind.Follower{JS: js, Writer: following, Created: created, Log: log},
		reconciler: reconcile.New(reconcile.Pass{DB: db, JS: js, Writer: reconciling}, every, watch.Metrics(), log),
		clocks:     clock.New(clock.NATS(js, topology.Bookings, topology.SchedulerStarts), clock.Database(db), clock.Every, watch.Metrics(), log),
	}
	watch.Live("reconcile", s.reconciler.Live)
	return s, nil
}

// run waits for the bookings' view and works until ctx ends.
func (s scheduler) run(ctx context.Context, db *pgxpool.Pool, log *zap.Logger) error {
	if err := pgdb.Await(ctx, log, db, pgdb.Readable("booking", "for_scheduler")); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // told to stop while waiting
		}
		return err
	}
	log.Info("scheduling")
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.follower.Run(ctx) })
	g.Go(func() error { return s.reconciler.Run(ctx) })
	g.Go(func() error { return s.clocks.Run(ctx) })
	return g.Wait()
}
