package store

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// Each lock is a statement of its own, before the one that reads: a statement that had to wait
// for one row still shows all others as they were before the wait.
const (
	lockBooking  = `select from booking.bookings where id = $1 for no key update`
	lockResource = `select from booking.resources where id = $1 for no key update`

	lockResourceOfBooking = `
		select from booking.resources
		where id = (select resource from booking.bookings where id = $1)
		for no key update`

	customerOf = `
		select id::text,
		       coalesce(ceil(extract(epoch from mails_owed[cardinality(mails_owed) + 1 - $2] + interval '1 hour' - clock_timestamp())), 0)::int
		from booking.customers
		where address = $1`
)

//go:embed facts.sql
var factsOfBooking string

const factsOfResource = `
	select r.id, r.name, r.zone, r.capacity, r.slot_minutes, r.reminder_lead,
	       coalesce(r.host_address, ''), r.retired_at is not null, clock_timestamp()
	from booking.resources r
	where r.id = $1`

// read takes the locks that ask names and reads the facts, in one round trip.
func read(ctx context.Context, tx pgx.Tx, ask app.Ask) (app.Facts, error) {
	var facts app.Facts
	batch := &pgx.Batch{}
	if ask.Booking == "" {
		batch.Queue(lockResource, ask.Resource)
		batch.Queue(factsOfResource, ask.Resource).QueryRow(func(row pgx.Row) error {
			return unlessNone(row.Scan(append(resourceFields(&facts.Resource), &facts.Now)...))
		})
	} else {
		batch.Queue(lockBooking, ask.Booking)
		if ask.Seats {
			batch.Queue(lockResourceOfBooking, ask.Booking)
		}
		batch.Queue(factsOfBooking, ask.Booking).QueryRow(func(row pgx.Row) error {
			return unlessNone(scanFacts(row, &facts))
		})
	}
	if ask.Address != "" {
		batch.Queue(customerOf, ask.Address, ask.Mails).QueryRow(func(row pgx.Row) error {
			var seconds int
			err := unlessNone(row.Scan(&facts.Customer, &seconds))
			facts.Wait = time.Duration(max(0, seconds)) * time.Second
			return err
		})
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return app.Facts{}, fmt.Errorf("lock and read: %w", err)
	}
	if ask.Booking != "" && facts.Booking.ID == "" {
		return app.Facts{}, booking.ErrNotFound
	}
	return facts, nil
}

func scanFacts(row pgx.Row, f *app.Facts) error {
	var remind *time.Time
	b, c := &f.Booking, &f.Booking.Contact
	fields := []any{
		&b.ID, &b.Resource, &b.Status, &b.Start, &b.End, &b.Seats,
		&b.Version, &b.StartVersion, &remind, &b.ToldCustomer, &b.ToldHost, &b.CreatedAt, &b.ChangedAt,
		&c.Customer, &c.Name, &c.Address, &c.Locale, &c.Note,
	}
	fields = append(fields, resourceFields(&f.Resource)...)
	if err := row.Scan(append(fields, &f.Now)...); err != nil {
		return err
	}
	b.Start, b.End, b.RemindAt = b.Start.UTC(), b.End.UTC(), orZero(remind)
	return nil
}

// resourceFields are r's fields in the order of every statement that reads a resource.
func resourceFields(r *booking.Resource) []any {
	return []any{&r.ID, &r.Name, &r.Zone, &r.Capacity, &r.SlotMinutes, &r.ReminderLead, &r.HostAddress, &r.Retired}
}
