package main

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/pkg/admin"
	"github.com/slotwise/slotwise/pkg/apikey"
	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/pkg/link"
	"github.com/slotwise/slotwise/pkg/logs"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/pkg/web"
	"github.com/slotwise/slotwise/services/booking/internal/api"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/retention"
	"github.com/slotwise/slotwise/services/booking/internal/store"
	"github.com/slotwise/slotwise/services/booking/migrations"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"
)

type settings struct {
	level      zapcore.Level
	httpAddr   string
	adminAddr  string
	database   pgdb.Settings
	nats       bus.Settings
	lead       time.Duration
	mails      int // an hour, to one customer
	links      link.Keys
	clients    web.Clients
	rate       *web.Limiter // of one client
	lag, drain time.Duration
}

func readSettings(env *config.Reader) settings {
	return settings{
		httpAddr:  env.String("HTTP_ADDR", ":8080", "where the API listens"),
		adminAddr: env.String("ADMIN_ADDR", ":9090", "where probes and metrics are"),
		level:     logs.Read(env),
		database:  pgdb.Read(env, "booking", 16),
		nats:      bus.Read(env, "booking"),
		lead:      env.Duration("REMINDER_LEAD", 24*time.Hour, 0, 366*24*time.Hour, "how long before a booking its reminder is due, where the resource says nothing; 0: none"),
		mails:     env.Int("MAILS_PER_HOUR", 20, 0, 1000, "how many mails a customer may be owed in an hour before changes that owe another are refused with 429; 0: any number"),
		links:     link.Read(env),
		clients:   web.ReadClients(env),
		rate:      web.ReadRate(env),
		lag:       env.Duration("DRAIN_LAG", 5*time.Second, 0, time.Minute, "after SIGTERM: how long requests are still taken, until load balancers have noticed"),
		drain:     env.Duration("DRAIN", 30*time.Second, time.Second, 10*time.Minute, "after that: how long requests in flight may take"),
	}
}

// serve runs the service until ctx ends. The admin port is there first and goes last: it
// answers while the service waits for its database, and until the last request is done.
func serve(ctx context.Context, s settings, env *config.Reader) error {
	log, err := logs.New("booking", s.level)
	if err != nil {
		return err
	}
	log.Info("starting", env.Fields()...)
	watch := admin.New()
	group, ctx := errgroup.WithContext(ctx)
	probing, stopProbes := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error { return watch.Run(probing, s.adminAddr, log) })
	group.Go(func() error {
		defer stopProbes()
		return work(ctx, s, watch, log)
	})
	return group.Wait()
}

// work is everything but the admin port. NATS is only for the doorbell: it is neither waited
// for nor a reason not to be ready.
func work(ctx context.Context, s settings, watch *admin.Server, log *zap.Logger) error {
	var serving atomic.Bool
	watch.Ready("api", func(context.Context) error {
		if !serving.Load() {
			return errors.New("waits for the database")
		}
		return nil
	})
	pool, err := pgdb.Open(ctx, s.database, watch)
	if err != nil {
		return err
	}
	defer pool.Close()
	nc, err := bus.Connect(s.nats, log, nil)
	if err != nil {
		return err
	}
	defer nc.Close()
	bookings, err := store.New(pool)
	if err != nil {
		return err
	}
	doors, err := shut(s, pool, watch, log)
	if err != nil {
		return err
	}
	bell := bus.NewBell(nc, topology.Doorbell)
	old := retention.Loop{DB: pool, Log: log, Every: time.Minute, Deleted: retention.NewDeleted(watch.Metrics())}
	front := web.Server{
		Addr: s.httpAddr, Setting: "HTTP_ADDR", Lag: s.lag, Grace: s.drain, Watch: watch, Log: log,
		Handler: api.New(app.Bookings{Store: bookings, Bell: bell, Lead: s.lead, Mails: s.mails}, doors, log, watch.Metrics()),
	}

	err = pgdb.Await(ctx, log, pool, pgdb.Schema("booking", migrations.Files),
		pgdb.Readable("notifier", "for_booking"), pgdb.Readable("notifier", "progress_for_booking"))
	if ctx.Err() != nil {
		return nil // told to stop before there was anything to do
	}
	if err != nil {
		return err
	}
	log.Info("serving", zap.String("addr", s.httpAddr))
	serving.Store(true)

	group, ctx := errgroup.WithContext(ctx)
	ringing, stopBell := context.WithCancel(context.WithoutCancel(ctx)) // for as long as requests are answered
	group.Go(func() error { return bell.Run(ringing) })
	group.Go(func() error { return doors.Keys.Run(ringing) })
	group.Go(func() error { return old.Run(ctx) })
	group.Go(func() error {
		defer stopBell()
		return front.Run(ctx)
	})
	return group.Wait()
}

// shut makes the doors of the API: who comes in has to have a key, or a link.
func shut(s settings, pool *pgxpool.Pool, watch *admin.Server, log *zap.Logger) (api.Doors, error) {
	keys, err := apikey.In(pool, "booking.api_keys")
	if err != nil {
		return api.Doors{}, err
	}
	refused := web.NewRefused(watch.Metrics(), append(slices.Clone(apikey.Reasons), api.WrongToken)...)
	return api.Doors{
		Throttle: web.Throttle{Clients: s.clients, Limiter: s.rate, Refused: refused},
		Keys:     apikey.NewGuard(keys, s.clients, refused, log),
		Links:    api.Links{Keys: s.links, Clients: s.clients, Refused: refused},
	}, nil
}
