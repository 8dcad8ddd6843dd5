package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/pkg/ops"
	"github.com/slotwise/slotwise/pkg/ops/message"
)

func (d *Desk) trace(ctx context.Context, r ops.Request) (any, error) {
	booking := strings.ToLower(strings.TrimSpace(string(r.Data)))
	if !id.IsBooking(booking) {
		return nil, &ops.BadRequestError{Text: "the request is no booking's id, such as 01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"}
	}
	t := message.Trace{Booking: booking}
	var v view
	err := d.read(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		if v, err = look(ctx, tx); err != nil {
			return err
		}
		return gather(ctx, tx, &t)
	})
	if err != nil {
		return nil, err
	}
	t.At, t.Switches, v.others = v.now.UTC(), v.switches, t.Messages
	t.Events, t.Reminders = message.Events{Found: []message.Event{}}, d.reminders(ctx, booking)
	if t.Facts != nil {
		t.Events = d.events(ctx, booking, t.Facts.Resource)
	}
	t.Messages = v.judged(t.Messages)
	t.Owed = owed(t, v)
	return cut(t), nil
}

const (
	factsSQL = `
		select json_build_object(
			'version', version, 'start_version', start_version, 'told_customer', told_customer, 'told_host', told_host,
			'status', status, 'start', starts_at, 'end', ends_at, 'remind_at', remind_at, 'seats', seats,
			'resource', resource, 'zone', zone, 'has_host', host_address is not null, 'erased', customer is null)
		from booking.for_notifier
		where booking = $1`
	// The held rows of events that nobody could read are about no booking; their keys name it.
	messagesSQL = `
		select to_jsonb(m) || jsonb_build_object('hands', coalesce((
			select jsonb_agg(to_jsonb(h) order by h.n)
			from (
				select h.n, h.token, h.handed_at, h.ended_at, h.outcome, h.unknown, left(h.answer, 300) as answer
				from notifier.hands h
				where h.key = m.key
				order by h.n desc
				limit 10) h), '[]'))
		from (
			select * from notifier.messages m
			where m.booking = $1
			   or m.key = any (array(
			       select 'event-booking-' || $1::text || '-v' || v
			       from generate_series(1, (select least(b.version, 1000) from booking.for_notifier b where b.booking = $1)) v))
			order by m.channel = 'webhook', m.created_at desc, m.key desc
			limit 100) m
		order by m.created_at, m.key`
	outboxSQL = `
		select json_build_object(
			'id', id, 'subject', subject, 'message_id', message_id, 'created_at', created_at, 'attempts', attempts,
			'last_error', left(last_error, 300), 'parked_at', parked_at, 'published_at', published_at)
		from (select * from booking.outbox_for_notifier where key = $1::text order by id desc limit 100) o
		order by id`
	auditSQL = `select json_build_object('mark', mark, 'passed_at', passed_at) from notifier.progress where name = 'audit'`
	// Operations that name the booking or one of its messages, and those that name none: they
	// may have touched everything.
	operationsSQL = `
		select to_jsonb(o) - 'id'
		from (
			select * from notifier.operations o
			where o.arguments ->> 'booking' = $1::text
			   or o.arguments -> 'keys' ?| $2::text[]
			   or o.at >= $3 and (not o.arguments ?| array['booking', 'keys', 'endpoint'] or o.arguments ->> 'endpoint' = any ($4::text[]))
			order by o.id desc
			limit 20) o
		order by o.id`
)

// gather reads what PostgreSQL knows of the booking.
func gather(ctx context.Context, tx pgx.Tx, t *message.Trace) error {
	err := tx.QueryRow(ctx, factsSQL, t.Booking).Scan(&t.Facts)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read booking: %w", err)
	}
	if t.Messages, err = all[message.Message](ctx, tx, messagesSQL, t.Booking); err != nil {
		return fmt.Errorf("read messages: %w", err)
	}
	if t.Outbox, err = all[message.Outbox](ctx, tx, outboxSQL, t.Booking); err != nil {
		return fmt.Errorf("read outbox: %w", err)
	}
	if err = tx.QueryRow(ctx, auditSQL).Scan(&t.Audit); err != nil {
		return fmt.Errorf("read the audit's progress: %w", err)
	}
	begin := t.Audit.PassedAt
	keys, endpoints := make([]string, len(t.Messages)), []string{}
	for i, m := range t.Messages {
		keys[i] = m.Key
		if m.Endpoint != "" {
			endpoints = append(endpoints, m.Endpoint)
		}
		if m.CreatedAt.Before(begin) {
			begin = m.CreatedAt
		}
	}
	if t.Operations, err = all[message.Operation](ctx, tx, operationsSQL, t.Booking, keys, begin, endpoints); err != nil {
		return fmt.Errorf("read operations: %w", err)
	}
	return nil
}

// cut shortens a trace until it fits into one answer: fewer hands and words first, then fewer
// messages, the newest kept.
func cut(t message.Trace) message.Trace {
	for hands, words := 10, 1024; ; hands, words = hands/2, words/2 {
		if text, err := json.Marshal(t); err != nil || len(text) <= maxAnswer || words == 0 {
			return t
		}
		t.Cut = true
		if hands < 2 {
			t.Messages = t.Messages[len(t.Messages)/2:]
			t.Outbox = t.Outbox[len(t.Outbox)/2:]
			t.Events.Found = t.Events.Found[len(t.Events.Found)/2:]
			t.Operations = t.Operations[len(t.Operations)/2:]
		}
		for i := range t.Messages {
			m := &t.Messages[i]
			m.Hands = m.Hands[len(m.Hands)-min(len(m.Hands), max(hands, 1)):]
			m.Reason, m.Answer, m.Verdict = short(m.Reason, words), short(m.Answer, words), short(m.Verdict, 2*words)
			for j := range m.Hands {
				m.Hands[j].Answer = short(m.Hands[j].Answer, words)
			}
		}
		for i := range t.Outbox {
			t.Outbox[i].LastError = short(t.Outbox[i].LastError, words)
		}
	}
}

// short is text, or the beginning of it with an ellipsis: most bytes and a few more.
func short(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
