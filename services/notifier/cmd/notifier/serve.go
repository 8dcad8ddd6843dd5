package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/admin"
	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/pkg/logs"
	"github.com/slotwise/slotwise/pkg/ops"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/services/notifier/internal/audit"
	"github.com/slotwise/slotwise/services/notifier/internal/bounce"
	"github.com/slotwise/slotwise/services/notifier/internal/endpoint"
	"github.com/slotwise/slotwise/services/notifier/internal/mail"
	"github.com/slotwise/slotwise/services/notifier/internal/operate"
	"github.com/slotwise/slotwise/services/notifier/internal/plan"
	"github.com/slotwise/slotwise/services/notifier/internal/send"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/services/notifier/internal/webhook"
	"github.com/slotwise/slotwise/services/notifier/migrations"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// serve runs the service until ctx ends. The admin port is there first and goes last: it
// answers while the service waits for its database, and until the last result is written.
func serve(ctx context.Context, s settings, env *config.Reader) error {
	log, err := logs.New("notifier", s.level)
	if err != nil {
		return err
	}
	log.Info("starting", env.Fields()...)
	watch := admin.New()
	defer context.AfterFunc(ctx, watch.Drain)()
	group, ctx := errgroup.WithContext(ctx)
	probing, stopProbes := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error { return watch.Run(probing, s.adminAddr, log) })
	group.Go(func() error {
		defer stopProbes()
		return work(ctx, s, watch, log)
	})
	return group.Wait()
}

// work is everything but the admin port. NATS is not waited for: without it /readyz says so,
// and the audit and the sender go on, so mails go out a few minutes late.
func work(ctx context.Context, s settings, watch *admin.Server, log *zap.Logger) error {
	var working atomic.Bool
	watch.Ready("notifier", func(context.Context) error {
		if !working.Load() {
			return errors.New("waits for the database")
		}
		return nil
	})
	pool, err := pgdb.Open(ctx, s.database, watch)
	if err != nil {
		return err
	}
	defer pool.Close()
	nc, err := bus.Connect(s.nats, log, watch)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}

	err = pgdb.Await(ctx, log, pool, pgdb.Schema("notifier", migrations.Files),
		pgdb.Readable("booking", "for_notifier"), pgdb.Readable("booking", "outbox_for_notifier"),
		pgdb.Readable("booking", "keys_for_notifier"))
	if ctx.Err() != nil {
		return nil // told to stop before there was anything to do
	}
	if err != nil {
		return err
	}
	rows := sendlog.New(pool, s.times)
	endpoints := endpoint.New(pool, s.webhooks.Rules, rows.WakeWebhooks)
	wake := func() { rows.Wake(); rows.WakeWebhooks() }
	done, err := ops.Serve(nc, "notifier", operate.About, log, operate.New(pool, js, endpoints, wake).Endpoints()...)
	if err != nil {
		return err
	}
	defer done()
	working.Store(true)
	log.Info("planning and sending")
	return loops(ctx, s, watch, log, pool, js, rows, endpoints)
}

// loops runs what plans and what sends until ctx ends, and then until the senders have finished
// what is in hand.
func loops(
	ctx context.Context, s settings, watch *admin.Server, log *zap.Logger, pool *pgxpool.Pool, js jetstream.JetStream,
	rows *sendlog.Log, endpoints *endpoint.Store,
) error {
	planner := plan.Planner{Log: rows, Logger: log}
	reminders := plan.Reminders{DB: pool, Log: rows, Logger: log}
	auditor := audit.New(pool, rows, s.times, log)
	mails := mail.Renderer{From: s.from, Domain: s.domain, Links: s.links}
	returnPath := bounce.ReturnPath(s.bounces.domain, s.from.Address)
	sender := send.New(rows, s.smtp, mails.Render, returnPath, log, watch.Metrics())
	webhooks := webhook.New(pool, s.webhooks, webhook.DefaultTimes(), rows.WokenWebhooks(), log, watch.Metrics())

	watch.Metrics().MustRegister(auditor)
	watch.Live("audit", auditor.Alive)
	watch.Live("sender", sender.Live)
	watch.Live("webhooks", webhooks.Live)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return planner.Loop(js).Run(ctx) })
	group.Go(func() error { return reminders.Loop(js).Run(ctx) })
	group.Go(func() error { return auditor.Run(ctx) })
	group.Go(func() error { return sender.Run(ctx) })
	group.Go(func() error { return webhooks.Run(ctx) })
	group.Go(func() error { return s.front.listen(ctx, s, watch, log, pool, endpoints) })
	return group.Wait()
}
