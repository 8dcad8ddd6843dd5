package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/ops"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/services/notifier/internal/endpoint"
)

// About is what `nats micro info notifier` shows of the service.
const About = "Plans and sends what bookings owe. Requests: docs/operations.md"

// Desk answers operators from the database of pool and the streams of js.
type Desk struct {
	pool     *pgxpool.Pool
	js       jetstream.JetStream
	webhooks *endpoint.Store
	wake     func() // says that there may be something to hand
}

// New returns a desk. Serve its endpoints with [ops.Serve]. wake is called when a command has
// made something ready to be handed; senders of other processes find it when they look next.
func New(pool *pgxpool.Pool, js jetstream.JetStream, webhooks *endpoint.Store, wake func()) *Desk {
	return &Desk{pool: pool, js: js, webhooks: webhooks, wake: wake}
}

// Endpoints are what the desk answers to.
func (d *Desk) Endpoints() []ops.Endpoint {
	ask := func(name, about string, answer func(context.Context, ops.Request) (any, error)) ops.Endpoint {
		return ops.Endpoint{Name: name, About: about, Answer: answer}
	}
	do := func(name, about string, answer func(context.Context, ops.Request) (any, error)) ops.Endpoint {
		return ops.Endpoint{Name: name, About: about, Answer: answer, Command: true}
	}
	late := ask("overdue", "what is late with nothing that explains it", d.overdue)
	late.Stats = d.stats
	return []ops.Endpoint{
		ask("trace", "the story of one booking's messages; the request is its id", d.trace),
		ask("messages", `lists messages: {"states": ["held"], "reason": "part", "after": "…"}; by default what is held or refused`, d.messages),
		late,
		ask("switches", "what is paused", d.switches),
		ask("suppressions", `lists addresses that no mail goes to: {"address": "…", "after": "…"}; by default all`, d.suppressions),
		do("release", "plans held messages again as they are", d.change("release")),
		do("retry", "plans held and refused messages again, with all their tries", d.change("retry")),
		do("discard", "skips messages that are neither sent nor in hand", d.change("discard")),
		do("resend", "plans the mail of the present state once more", d.change("resend")),
		do("lift", "lets mails go again to a suppressed address; the request is the address, or the key of a message to it", d.lift),
		do("pause", "mail or webhooks: nothing more is handed until resume", d.turn("pause")),
		do("resume", "ends a pause", d.turn("resume")),
		ask("webhooks", `lists endpoints: {"id": "…", "deleted": true, "after": "…"}; by default all that are not deleted`, d.endpoints),
		ask("deliveries", `lists webhooks: {"endpoint": "…", "states": ["held"], "before": "…"}, or shows one with its attempts: {"key": "…"}`, d.deliveries),
		do("webhook-create", `makes an endpoint: {"url": "https://…", "owner": "…"}; the only answer with its secret`, d.createEndpoint),
		do("webhook-disable", `holds what is for an endpoint: {"endpoint": "…", "reason": "…"}`, d.order("disable")),
		do("webhook-enable", "plans again what was held because it was disabled", d.order("enable")),
		do("webhook-delete", `deletes an endpoint for good and skips what waits for it: {"endpoint": "…"}; with "dry_run": true tells how many`, d.order("delete")),
		do("webhook-rotate", `makes a new secret: {"endpoint": "…", "overlap_seconds": 86400}`, d.order("rotate")),
		do("webhook-example", "plans the delivery of an example", d.order("example")),
		do("webhook-resend", `plans a delivery once more: {"key": "…"}`, d.order("resend")),
		do("webhook-recover", `plans again what is held or refused: {"endpoint": "…", "since": "…"}`, d.order("recover")),
	}
}

// read runs step in a transaction that sees one state of the database and writes nothing. Its
// times are in UTC, also inside of JSON.
func (d *Desk) read(ctx context.Context, step func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, pgdb.TxTimeout)
	defer cancel()
	return asked(pgx.BeginTxFunc(ctx, d.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `set local timezone = 'UTC'`); err != nil {
			return fmt.Errorf("set time zone: %w", err)
		}
		return step(ctx, tx)
	}))
}

// asked makes of an error that PostgreSQL found in the request's data (class 22: data
// exception) one that the asker sees.
func asked(err error) error {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(pgErr.Code, "22") {
		return &ops.BadRequestError{Text: pgErr.Message}
	}
	return err
}

// all collects rows of one JSON column.
func all[T any](ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]T, error) {
	rows, _ := tx.Query(ctx, sql, args...) // the collector reports this error too
	return pgx.CollectRows(rows, pgx.RowTo[T])
}
