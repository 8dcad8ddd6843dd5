package main

import (
	"context"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/pkg/admin"
	"github.com/slotwise/slotwise/pkg/apikey"
	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/pkg/web"
	"github.com/slotwise/slotwise/services/notifier/internal/bounce"
	"github.com/slotwise/slotwise/services/notifier/internal/endpoint"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// front is the notifier's HTTP listener: endpoints of webhooks, and reports of bounces.
type front struct {
	addr    string
	lag     time.Duration
	clients web.Clients
	rate    *web.Limiter
}

func readFront(env *config.Reader) front {
	return front{
		addr:    env.String("HTTP_ADDR", ":8081", "where the API of webhooks listens, and where reports of bounces are taken if BOUNCE_SECRET is set"),
		lag:     env.Duration("DRAIN_LAG", 5*time.Second, 0, time.Minute, "after SIGTERM: how long requests are still taken, until load balancers have noticed"),
		clients: web.ReadClients(env),
		rate:    web.ReadRate(env),
	}
}

// requestGrace is what requests in flight get at a stop: more than a transaction may take.
const requestGrace = pgdb.TxTimeout + 5*time.Second

// listen serves the API of endpoints, and reports of bounces if they are taken, until ctx ends;
// then the use of API keys is noted.
func (f front) listen(ctx context.Context, s settings, watch *admin.Server, log *zap.Logger, pool *pgxpool.Pool, endpoints *endpoint.Store) error {
	keys, err := apikey.In(pool, "booking.keys_for_notifier")
	if err != nil {
		return err
	}
	refused := web.NewRefused(watch.Metrics(), apikey.Reasons...)
	guard := apikey.NewGuard(keys, f.clients, refused, log)
	doors := endpoint.Doors{Throttle: web.Throttle{Clients: f.clients, Limiter: f.rate, Refused: refused}, Keys: guard}
	routes := http.NewServeMux()
	routes.Handle("/", endpoint.NewAPI(endpoints, doors, log, watch.Metrics()))
	if s.bounces.secret != "" {
		routes.Handle(bounce.Path, bounce.New(pool, s.bounces.secret, log, watch.Metrics()))
	}
	server := web.Server{Addr: f.addr, Setting: "HTTP_ADDR", Lag: f.lag, Grace: requestGrace, Watch: watch, Log: log, Handler: routes}

	group, ctx := errgroup.WithContext(ctx)
	noting, stopNoting := context.WithCancel(context.WithoutCancel(ctx)) // for as long as requests are answered
	group.Go(func() error { return guard.Run(noting) })
	group.Go(func() error {
		defer stopNoting()
		return server.Run(ctx)
	})
	return group.Wait()
}
