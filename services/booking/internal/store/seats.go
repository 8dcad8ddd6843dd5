package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// seating is a change's seats with their numbers.
type seating struct {
	booking.Seating
	resource   string
	capacity   int
	own        *string // booking whose own seats are released first; nil: none
	numbers    []int
	renumbered []booking.Renumbering
}

// findSeats finds numbers for the seats that c takes. The resource is locked. When no number
// is free throughout but the load fits, seats of others are renumbered; only when the load
// does not fit it is a [booking.TakenError].
func findSeats(ctx context.Context, tx pgx.Tx, c booking.Change, capacity int) (seating, error) {
	s := seating{Seating: c.Seating(), resource: c.After.Resource, capacity: capacity}
	if s.Take == 0 {
		return s, nil
	}
	if s.Release > 0 {
		s.own = &c.After.ID
	}
	for _, find := range []func(context.Context, pgx.Tx) error{s.probe, s.lowest, s.renumber} {
		if err := find(ctx, tx); err != nil {
			return seating{}, err
		}
		if len(s.numbers) == s.Take {
			return s, nil
		}
	}
	return seating{}, errors.New("find seats: the load fits, and yet there are no numbers")
}

// crowd is the capacity above which numbers are tried at random first: it takes milliseconds to
// read all seats of a hall that has sold thousands.
const crowd = 64

//go:embed probe.sql
var probeNumbers string

// probe tries some numbers of a big resource. It finds none, most likely, when that is nearly
// full; then the other ways do.
func (s *seating) probe(ctx context.Context, tx pgx.Tx) error {
	if s.capacity <= crowd {
		return nil
	}
	tries := make([]int, 0, 2*s.Take+16)
	seen := map[int]bool{}
	for range cap(tries) {
		if n := 1 + rand.IntN(s.capacity); !seen[n] { //nolint:gosec // any number will do
			tries, seen[n] = append(tries, n), true
		}
	}
	var numbers []int
	var above bool
	err := tx.QueryRow(ctx, probeNumbers, s.resource, s.Span.Start, s.Span.End, s.capacity, tries, s.Take, s.own).Scan(&numbers, &above)
	if err != nil {
		return fmt.Errorf("try seats: %w", err)
	}
	if !above && len(numbers) == s.Take {
		s.numbers = numbers
	}
	return nil
}

// An overlapping seat ends before the end plus the longest booking (constraint seats_length),
// which bounds the scan of the index seats_overlap.
const takenBlocks = `
	select lower(during), upper(during), array_agg(seat)
	from booking.seats
	where resource = $1
	  and upper(during) > $2
	  and upper(during) < $3::timestamptz + interval '1440 minutes'
	  and lower(during) < $3
	  and booking is distinct from $4::uuid
	group by lower(during), upper(during)`

// lowest finds the lowest numbers that are free throughout, as far as there are any, unless
// the load does not fit.
func (s *seating) lowest(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, takenBlocks, s.resource, s.Span.Start, s.Span.End, s.own)
	if err != nil {
		return fmt.Errorf("read seats: %w", err)
	}
	taken, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (booking.Block, error) {
		var b booking.Block
		err := row.Scan(&b.Start, &b.End, &b.Numbers)
		return b, err
	})
	if err != nil {
		return fmt.Errorf("read seats: %w", err)
	}
	var sure bool
	if s.numbers, sure = booking.Lowest(taken, s.Take, s.capacity); sure {
		return nil
	}
	if left := booking.Left(taken, s.Span, s.capacity); left < s.Take {
		return &booking.TakenError{Field: s.Field, Asked: s.Take, Left: left}
	}
	return nil
}

// horizons are how far renumbering looks beyond the booking: a day, mostly; and to the last
// booking that there is, if seats overlap without end.
var horizons = []time.Duration{24 * time.Hour, 16 * 24 * time.Hour, math.MaxInt64}

func (s *seating) renumber(ctx context.Context, tx pgx.Tx) error {
	s.numbers = nil
	for _, ahead := range horizons {
		horizon := s.Span.End.Add(ahead)
		others, err := s.others(ctx, tx, horizon)
		if err != nil {
			return err
		}
		if numbers, renumbered, settled := booking.Renumber(others, s.Span, s.Take, s.capacity, horizon); settled {
			s.numbers, s.renumbered = numbers, renumbered
			return nil
		}
	}
	return nil
}

const seatsOverlapping = `
	select booking::text, seat, lower(during), upper(during)
	from booking.seats
	where resource = $1
	  and upper(during) > $2
	  and upper(during) < $3::timestamptz + interval '1440 minutes'
	  and lower(during) < $3
	  and booking is distinct from $4::uuid`

// others returns the seats that overlap the time from the span's start to end.
func (s *seating) others(ctx context.Context, tx pgx.Tx, end time.Time) ([]booking.Seat, error) {
	rows, err := tx.Query(ctx, seatsOverlapping, s.resource, s.Span.Start, end, s.own)
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
		batch.Queue(takeSeats, b.ID, s.resource, s.Span.Start, s.Span.End, s.numbers)
	}
}
