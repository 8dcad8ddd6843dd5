package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/outbox"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

const insertBooking = `
	insert into booking.bookings (
	    id, resource, status, starts_at, ends_at, seats, version, start_version,
	    remind_at, told_customer, told_host, created_at, changed_at)
	values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12)`

const updateBooking = `
	update booking.bookings
	set status = $2, starts_at = $3, ends_at = $4, seats = $5, version = $6, start_version = $7,
	    remind_at = $8, told_customer = $9, told_host = $10, changed_at = $11
	where id = $1`

const insertContact = `
	insert into booking.contacts (booking, customer, name, address, locale, note)
	values ($1, $2, $3, $4, $5, $6)`

const updateContact = `
	update booking.contacts
	set customer = $2, name = $3, address = $4, locale = $5, note = $6
	where booking = $1`

// save writes the change with its event, and the answer under the key, in one round trip.
func (s *Store) save(ctx context.Context, tx pgx.Tx, w *work, answer app.Answer) error {
	batch := &pgx.Batch{}
	if !w.change.None() {
		e, err := tell(w.change, w.facts.Resource, w.ask.Trace)
		if err != nil {
			return err
		}
		queueBooking(batch, w.change)
		w.seats.queue(batch, w.change.After)
		w.queueCustomer(batch)
		w.queueContact(batch)
		s.outbox.Queue(batch, e)
	}
	if w.ask.Key.Name != "" {
		header, err := json.Marshal(answer.Header) // as text, which every exec mode of pgx can send
		if err != nil {
			return fmt.Errorf("encode header: %w", err)
		}
		batch.Queue(insertKey, w.shelf, w.ask.Key.Caller, w.ask.Key.Fingerprint, answer.Status, string(header), answer.Body)
	}
	if batch.Len() == 0 {
		return nil
	}
	err := tx.SendBatch(ctx, batch).Close()
	switch {
	case errors.Is(err, errMailsOwed):
		return w.refuse(ctx, tx)
	case err != nil:
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

func queueBooking(batch *pgx.Batch, c booking.Change) {
	b := c.After
	if c.Before.ID == "" {
		batch.Queue(insertBooking, b.ID, b.Resource, string(b.Status), b.Start, b.End, b.Seats, b.Version, b.StartVersion,
			orNull(b.RemindAt), b.ToldCustomer, b.ToldHost, b.CreatedAt)
		return
	}
	batch.Queue(updateBooking, b.ID, string(b.Status), b.Start, b.End, b.Seats, b.Version, b.StartVersion,
		orNull(b.RemindAt), b.ToldCustomer, b.ToldHost, b.ChangedAt)
}

func (w *work) queueContact(batch *pgx.Batch) {
	b, c := w.change.After, w.change.After.Contact
	if c == w.change.Before.Contact {
		return
	}
	sql := updateContact
	if w.change.Before.ID == "" {
		sql = insertContact
	}
	batch.Queue(sql, b.ID, c.Customer, c.Name, c.Address, c.Locale, c.Note)
}

var eventTypes = map[booking.Kind]event.Type{
	booking.KindConfirmed:   event.Confirmed,
	booking.KindRescheduled: event.Rescheduled,
	booking.KindCancelled:   event.Cancelled,
	booking.KindChanged:     event.Changed,
}

// tell makes the outbox row of the event that tells c.
func tell(c booking.Change, r booking.Resource, trace string) (outbox.Event, error) {
	b := c.After
	e := event.New(eventTypes[c.Kind], b.ChangedAt, event.Data{
		Booking: b.ID, Version: b.Version, StartVersion: b.StartVersion,
		ToldCustomer: b.ToldCustomer, ToldHost: b.ToldHost,
		Status: event.Status(b.Status), Resource: b.Resource, Start: b.Start, End: b.End, Zone: r.Zone,
		Seats: b.Seats, Customer: b.Contact.Customer, RemindAt: orNull(b.RemindAt), Changed: c.Fields,
	})
	payload, err := e.Encode()
	if err != nil {
		return outbox.Event{}, fmt.Errorf("tell the change: %w", err)
	}
	headers := map[string]string{}
	if trace != "" {
		headers["traceparent"] = trace
	}
	return outbox.Event{Key: b.ID, Subject: e.NATSSubject(), MessageID: e.ID, Headers: headers, Payload: payload}, nil
}
