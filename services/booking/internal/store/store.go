// Package store keeps bookings in PostgreSQL and owns their transactions.
//
// # One change
//
// A change is one transaction that takes its locks in one order, the same for everybody:
// the idempotency key, the booking, its resource (only when time, seats or status may change),
// the seats, the customer last. It reads the facts under these locks, lets a pure step decide,
// and writes rows, event and stored answer together. PostgreSQL's clock is read after the
// locks, so that the times of a booking's versions follow each other; the outbox row's id is
// drawn under the booking's lock, so that ids follow versions.
//
// The locks are FOR NO KEY UPDATE: foreign keys to the rows are not held up. The exclusion
// constraint on seats is the net under the resource's lock, never the rule; without that lock
// concurrent writes to one slot end as deadlocks.
//
// # The idempotency key
//
// The key is a transaction's advisory lock, tried and never waited for: who does not get it
// learns that the first request is still running. Its row is written with the change, so
// there is no state "begun": after a crash there is either the change with its answer, or
// neither. A refusal of the domain is an answer too and is kept.
//
// # Failures
//
// Deadlocks and serialization failures run the step again. What PostgreSQL can't do now, or
// does not answer, is [app.ErrAway]: the outcome of a commit may then be unknown.
package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/pkg/failpoint"
	"github.com/slotwise/slotwise/pkg/outbox"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// Store implements [app.Store].
type Store struct {
	db     *pgxpool.Pool
	outbox outbox.Table
}

// New returns the store on db.
func New(db *pgxpool.Pool) (*Store, error) {
	table, err := outbox.In("booking.outbox_events")
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return &Store{db, table}, nil
}

// strangerTries is how often a change runs when somebody else books for the same, new address
// at the same moment. The second run finds the customer whom the other has made.
const strangerTries = 3

// Change implements [app.Store].
func (s *Store) Change(ctx context.Context, ask app.Ask, step app.Step, encode app.Encode) (app.Answer, bool, error) {
	for try := 1; ; try++ {
		answer, changed, err := s.change(ctx, ask, step, encode)
		if try < strangerTries && pgdb.Violates(err, "contacts_customer_fkey") {
			continue
		}
		return answer, changed, classify(err)
	}
}

func (s *Store) change(ctx context.Context, ask app.Ask, step app.Step, encode app.Encode) (answer app.Answer, changed bool, err error) {
	stranger, err := uuid.NewV7()
	if err != nil {
		return app.Answer{}, false, fmt.Errorf("draw a customer's id: %w", err)
	}
	err = pgdb.InTx(ctx, s.db, func(ctx context.Context, tx pgx.Tx) (err error) {
		changed = false
		shelf, err := takeKey(ctx, tx, ask.Key)
		if err != nil {
			return err
		}
		if shelf.own != nil {
			answer = shelf.own.answer
			return nil
		}
		w := &work{ask: ask, shelf: shelf.name, stranger: stranger.String()}
		err = w.decide(ctx, tx, step)
		failpoint.Hit("booking.locked")
		outcome := app.Outcome{Booking: w.change.After, Resource: w.facts.Resource}
		if booking.Refused(err) {
			outcome.Refusal, w.change = err, booking.Change{}
		} else if err != nil {
			return err
		}
		if answer, err = encode(outcome); err != nil {
			return fmt.Errorf("encode answer: %w", err)
		}
		changed = !w.change.None()
		err = s.save(ctx, tx, w, answer)
		failpoint.Hit("booking.saved")
		return err
	})
	if err != nil {
		return app.Answer{}, false, fmt.Errorf("change: %w", err)
	}
	return answer, changed, nil
}

// work is one change on its way.
type work struct {
	ask      app.Ask
	shelf    string // key of the row that keeps the answer
	stranger string // UUID for the customer, if nobody has the address yet
	facts    app.Facts
	change   booking.Change
	seats    seating
}

// decide reads the facts under their locks, lets step decide, and finds the seats for it. A
// refusal is an error of package booking.
func (w *work) decide(ctx context.Context, tx pgx.Tx, step app.Step) (err error) {
	if w.facts, err = read(ctx, tx, w.ask); err != nil {
		return err
	}
	if w.facts.Customer == "" {
		w.facts.Customer = w.stranger
	}
	if w.change, err = step(w.facts); err != nil || w.change.None() {
		return err
	}
	if err := w.mayOwe(); err != nil {
		return err
	}
	w.seats, err = findSeats(ctx, tx, w.change, w.facts.Resource.Capacity)
	return err
}

// orNull is the parameter of a time that may be zero.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// orZero is the other way round, in UTC.
func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
