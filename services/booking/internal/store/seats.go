package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// seating is a change's seats with their numbers.
type seating struct {
	booking.Seating
	numbers    []int
	renumbered []booking.Renumbering
}

//go:embed free.sql
var freeSeats string

// findSeats finds numbers for the seats that c takes. The resource is locked. When no number
// is free throughout but the load fits, seats of others are renumbered; only when the load
// does not fit it is a [booking.TakenError].
func findSeats(ctx context.Context, tx pgx.Tx, c booking.Change, capacity int) (seating, error) {
	s := seating{Seating: c.Seating()}
	if s.Take == 0 {
		return s, nil
	}
	own := ownSeats(c, s.Seating)
	var highest int
	err := tx.QueryRow(ctx, freeSeats, c.After.Resource, s.Span.Start, s.Span.End, capacity, s.Take, own).Scan(&s.numbers, &highest)
	if err != nil {
		return seating{}, fmt.Errorf("find free seats: %w", err)
	}
	// A number above the capacity is left from when that was higher: then free numbers don't
	// prove that the load fits.
	if len(s.numbers) == s.Take && highest <= capacity {
		return s, nil
	}
	others, err := seatsWithin(ctx, tx, c.After.Resource, s.Span, own)
	if err != nil {
		return seating{}, err
	}
	if left := booking.Left(others, s.Span, capacity); left < s.Take {
		return seating{}, &booking.TakenError{Field: s.Field, Asked: s.Take, Left: left}
	}
	if len(s.numbers) < s.Take {
		s.numbers, s.renumbered, err = renumber(ctx, tx, c.After.Resource, s, capacity, own)
	}
	return s, err
}

// ownSeats is the booking whose seats are released before others are taken; nil: none.
func ownSeats(c booking.Change, s booking.Seating) *string {
	if s.Release == 0 {
		return nil
	}
	return &c.After.ID
}

// lastHorizon is how far renumbering looks beyond the booking; a chain of overlapping seats
// that is longer ends in an error, not in a wrong number.
const lastHorizon = 366 * 24 * time.Hour

// renumber looks a day beyond the span, then two, four…, until what changes is all in sight.
func renumber(ctx context.Context, tx pgx.Tx, resource string, s seating, capacity int, own *string) ([]int, []booking.Renumbering, error) {
	for ahead := 24 * time.Hour; ahead <= lastHorizon; ahead *= 2 {
		horizon := s.Span.End.Add(ahead)
		others, err := seatsWithin(ctx, tx, resource, booking.Span{Start: s.Span.Start, End: horizon}, own)
		if err != nil {
			return nil, nil, err
		}
		if numbers, renumbered, settled := booking.Renumber(others, s.Span, s.Take, capacity, horizon); settled {
			return numbers, renumbered, nil
		}
	}
	return nil, nil, errors.New("renumber seats: the chain of overlapping bookings is too long")
}

const seatsOverlapping = `
	select booking::text, seat, lower(during), upper(during)
	from booking.seats
	where resource = $1
	  and upper(during) > $2
	  and upper(during) < $3::timestamptz + interval '1440 minutes'
	  and lower(during) < $3
	  and booking is distinct from $4::uuid`

func seatsWithin(ctx context.Context, tx pgx.Tx, resource string, span booking.Span, own *string) ([]booking.Seat, error) {
	rows, err := tx.Query(ctx, seatsOverlapping, resource, span.Start, span.End, own)
	if err != nil {
		return nil, fmt.Errorf("read seats: %w", err)
	}
	seats, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (booking.Seat, error) {
		var s booking.Seat
		err := row.Scan(&s.Booking, &s.Number, &s.Start, &s.End)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("read seats: %w", err)
	}
	return seats, nil
}

const releaseSeats = `
	delete from booking.seats
	where booking = $1
	  and seat in (select seat from booking.seats where booking = $1 order by seat desc limit $2)`

// renumberSeats changes all numbers in one statement, after which the constraint is checked.
const renumberSeats = `
	update booking.seats s
	set seat = n.number
	from unnest($1::uuid[], $2::int[], $3::int[]) n (booking, was, number)
	where s.booking = n.booking and s.seat = n.was`

const takeSeats = `
	insert into booking.seats (booking, resource, seat, during)
	select $1, $2, number, tstzrange($3, $4)
	from unnest($5::int[]) number`

// queue adds the seats' statements to the batch of the change.
func (s seating) queue(batch *pgx.Batch, b booking.Booking) {
	if s.Release > 0 {
		batch.Queue(releaseSeats, b.ID, s.Release)
	}
	if len(s.renumbered) > 0 {
		var bookings []string
		var was, numbers []int
		for _, r := range s.renumbered {
			bookings, was, numbers = append(bookings, r.Booking), append(was, r.From), append(numbers, r.To)
		}
		batch.Queue(renumberSeats, bookings, was, numbers)
	}
	if s.Take > 0 {
		batch.Queue(takeSeats, b.ID, b.Resource, s.Span.Start, s.Span.End, s.numbers)
	}
}
