package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// How many mails a customer is owed in an hour has an end ([app.Ask].Mails), or whoever may book
// could have us bomb anybody's mailbox. It is judged here, before anything is owed, so that what
// is owed is never dropped or put off.
//
// The customer's row keeps when the last mails were owed, at most as many as the limit: exact
// over any hour, and one number to compare. It is counted by the last lock that a change takes,
// in the same round trip as all its writes. What was counted before the lock ([app.Facts].Wait)
// is enough to refuse, since counts only rise meanwhile, and spares a refused request the rest.

// insertCustomer does nothing when somebody else has the address by now: the contact's foreign
// key then fails, and the change runs again.
const insertCustomer = `
	insert into booking.customers (id, address, mails_owed)
	values ($1, $2, array[clock_timestamp()])
	on conflict (address) do nothing`

// oweMail changes no row when $2 mails were owed in the last hour, unless $3.
const oweMail = `
	update booking.customers
	set mails_owed = mails_owed[greatest(cardinality(mails_owed) + 2 - $2, 1):] || clock_timestamp()
	where id = $1
	  and ($3 or coalesce(mails_owed[cardinality(mails_owed) + 1 - $2] <= clock_timestamp() - interval '1 hour', true))`

// errMailsOwed is what the batch of writes ends with when a mail was one too many.
var errMailsOwed = errors.New("too many mails are owed")

// mayOwe refuses a change that was one too many before anybody waited for the customer.
func (w *work) mayOwe() error {
	if w.facts.Wait > 0 && w.counts() && w.change.After.Contact.Customer == w.facts.Customer {
		return &app.TooManyMailsError{Wait: w.facts.Wait}
	}
	return nil
}

// counts reports whether the change may be one too many. Cancelling never is: it ends with the
// bookings that there are.
func (w *work) counts() bool {
	return w.ask.Mails > 0 && w.change.Owes() && w.change.Kind != booking.KindCancelled
}

// queueCustomer makes a customer whom nobody knew, or counts the mail that a known one is owed.
func (w *work) queueCustomer(batch *pgx.Batch) {
	customer := w.change.After.Contact.Customer
	switch {
	case customer == w.stranger:
		batch.Queue(insertCustomer, customer, w.ask.Address)
	case w.ask.Mails > 0 && w.change.Owes():
		batch.Queue(oweMail, customer, w.ask.Mails, !w.counts()).Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() == 0 {
				return errMailsOwed
			}
			return nil
		})
	}
}

const mailWait = `
	select ceil(extract(epoch from mails_owed[cardinality(mails_owed) + 1 - $2] + interval '1 hour' - clock_timestamp()))::int
	from booking.customers
	where id = $1`

// refuse tells how long it takes until the mail is not one too many any more.
func (w *work) refuse(ctx context.Context, tx pgx.Tx) error {
	var seconds *int
	if err := tx.QueryRow(ctx, mailWait, w.change.After.Contact.Customer, w.ask.Mails).Scan(&seconds); err != nil {
		return fmt.Errorf("read when mails were owed: %w", err)
	}
	wait := time.Second // another change may have made room by now
	if seconds != nil {
		wait = max(wait, time.Duration(*seconds)*time.Second)
	}
	return &app.TooManyMailsError{Wait: wait}
}
