package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// refusedAs returns how many seats were left for what was refused.
func refusedAs(o outcome) (left int, taken bool) {
	if e, ok := errors.AsType[*booking.TakenError](o.Refusal); ok {
		return e.Left, true
	}
	return 0, false
}

// Two seats, each needed by somebody at some time of the hour: the load fits, no number is
// free throughout, so somebody gets another one; and then the seats are really full.
func TestRenumbersWhenTheLoadFits(t *testing.T) {
	t.Parallel()
	d := newDesk(t, room("hall", 2))
	d.must(d.book(request("hall", base.Add(-30*time.Minute), 1))) // 1, until :30
	d.must(d.book(request("hall", base.Add(30*time.Minute), 1)))  // 1
	d.exec(`update booking.seats set seat = 2 where lower(during) >= $1`, base)
	d.must(d.book(request("hall", base, 1)))
	if n := d.count(`select count(distinct seat) from booking.seats where seat <= 2`); n != 2 {
		t.Errorf("%d numbers", n)
	}
	for _, minute := range []time.Duration{0, 10, 30, 59} {
		o, err := d.try(d.book(request("hall", base.Add(minute*time.Minute), 1)))
		if left, taken := refusedAs(o); err != nil || !taken || left != 0 {
			t.Errorf("a third at minute %d: %v, %v", minute, o.Refusal, err)
		}
	}
}

// Two seats that are busy for a month without a break: one booking before it, where the load
// fits, gives everybody after it the other number.
func TestRenumbersAChainWithoutEnd(t *testing.T) {
	t.Parallel()
	d := newDesk(t, room("hall", 2))
	d.exec(`alter table booking.seats drop constraint seats_booking_fkey`)
	d.exec(`insert into booking.seats (booking, resource, seat, during)
		select gen_random_uuid(), 'hall', 1 + n % 2, tstzrange($1::timestamptz + n * interval '30 minutes', $1::timestamptz + (n + 2) * interval '30 minutes')
		from generate_series(0, 1500) n`, base)
	d.exec(`insert into booking.seats (booking, resource, seat, during) values (gen_random_uuid(), 'hall', 2, tstzrange($1, $2))`,
		base.Add(-time.Hour), base.Add(-15*time.Minute))
	d.must(d.book(request("hall", base.Add(-30*time.Minute), 1)))
	changed := d.count(fmt.Sprintf(`
		select count(*) from booking.seats
		where lower(during) >= '%[1]s' and seat = 2 - (extract(epoch from lower(during) - '%[1]s') / 1800)::int %% 2`, base.Format(time.RFC3339)))
	if changed != 1501 {
		t.Errorf("%d seats have the other number", changed)
	}
}

func TestHalfOpen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.must(d.book(request("room", base, 1)))
	d.must(d.book(request("room", base.Add(time.Hour), 1)))
	d.must(d.book(request("room", base.Add(-time.Hour), 1)))
	for _, minute := range []time.Duration{-59, -1, 0, 1, 59} {
		o, err := d.try(d.book(request("room", base.Add(minute*time.Minute), 1)))
		if _, taken := refusedAs(o); err != nil || !taken {
			t.Errorf("%d minutes off: %+v, %v", minute, o.Refusal, err)
		}
	}
}

// What is booked stays when the capacity is lowered below it, and may become less or go;
// nothing is added until the load fits again, whatever numbers are free.
func TestCapacityLoweredBelowWhatIsBooked(t *testing.T) {
	t.Parallel()
	d := newDesk(t, room("hall", 6))
	first := d.must(d.book(request("hall", base, 3)))
	second := d.must(d.book(request("hall", base, 3)))
	if _, err := d.store.PutResources(t.Context(), []booking.Resource{room("hall", 3)}); err != nil {
		t.Fatal(err)
	}
	d.must(d.edit(second.ID, booking.Edit{Seats: new(2)}))
	d.must(d.edit(second.ID, booking.Edit{Note: new("x")}))
	refused := func(what string, do func(app.Call) (app.Answer, error), wantLeft int) {
		t.Helper()
		o, err := d.try(do)
		if left, taken := refusedAs(o); err != nil || !taken || left != wantLeft {
			t.Errorf("%s: %d left, %v, %v", what, left, o.Refusal, err)
		}
	}
	refused("one more", d.book(request("hall", base, 1)), 0)
	d.must(d.edit(first.ID, booking.Edit{Seats: new(1)}))
	refused("one more at 3 of 3, with numbers 2 and 3 free", d.book(request("hall", base.Add(time.Minute), 1)), 0)
	d.must(d.edit(second.ID, booking.Edit{Seats: new(1)}))
	refused("two at 2 of 3, with numbers 2 and 3 free", d.book(request("hall", base.Add(time.Minute), 2)), 1)
	d.must(d.book(request("hall", base.Add(time.Minute), 1)))
	d.must(d.move(second.ID, base.Add(24*time.Hour)))
	d.must(d.cancel(first.ID))
}

// In a big hall numbers are tried at random first: it still fills to the last seat and no
// further, also after its capacity was lowered.
func TestABigHall(t *testing.T) {
	t.Parallel()
	d := newDesk(t, room("hall", 70))
	won := race(t, 40, func(int) (outcome, error) { return d.try(d.book(request("hall", base, 2))) })
	if len(won) != 35 {
		t.Fatalf("%d bookings of two seats", len(won))
	}
	if _, err := d.store.PutResources(t.Context(), []booking.Resource{room("hall", 66)}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{0, 0, 0, 1} { // 70, 68, 66, 64 seats are taken
		o, err := d.try(d.book(request("hall", base.Add(time.Duration(i)*time.Minute), 1)))
		if got := o.Refusal == nil; err != nil || got != (want == 1) {
			t.Errorf("after %d cancellations: %v, %v", i, o.Refusal, err)
		}
		d.must(d.cancel(won[i].Booking.ID))
	}
}

// Seats of one booking: more are added to those it has, fewer free the highest.
func TestMoreAndFewerSeats(t *testing.T) {
	t.Parallel()
	d := newDesk(t, room("hall", 5))
	a := d.must(d.book(request("hall", base, 2)))
	d.must(d.book(request("hall", base, 2)))
	o, err := d.try(d.edit(a.ID, booking.Edit{Seats: new(4)}))
	if left, taken := refusedAs(o); err != nil || !taken || left != 1 {
		t.Errorf("%d left, %v, %v", left, o.Refusal, err)
	}
	d.must(d.edit(a.ID, booking.Edit{Seats: new(3)}))
	d.must(d.edit(a.ID, booking.Edit{Seats: new(1)}))
	if n := d.count(`select count(*) from booking.seats where booking = '` + a.ID + `'`); n != 1 {
		t.Errorf("%d seats", n)
	}
	d.must(d.move(a.ID, base.Add(10*time.Minute)))
	d.must(d.edit(a.ID, booking.Edit{Seats: new(3)}))
	o, err = d.try(d.move(d.must(d.book(request("hall", base.Add(48*time.Hour), 1))).ID, base))
	if left, taken := refusedAs(o); err != nil || !taken || left != 0 {
		t.Errorf("%d left, %v, %v", left, o.Refusal, err)
	}
}

// Random bookings, moves, seats and cancellations, and a capacity that changes, by several
// clients at once, against a model that only counts heads: at every instant that matters the
// load decides, and a refusal names how many seats were left. The exclusion constraint checks
// the numbers.
func TestSeatsAgainstTheLoad(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 7))
			capacity := 2 + int(seed)
			hall := room("hall", capacity)
			d := newDesk(t, hall)
			model := map[string]booking.Booking{}
			for range 220 {
				if random.IntN(60) == 0 {
					hall.Capacity = 1 + random.IntN(capacity+1)
					if _, err := d.store.PutResources(t.Context(), []booking.Resource{hall}); err != nil {
						t.Fatal(err)
					}
				}
				// Slots of different lengths make fragments.
				d.exec(fmt.Sprintf(`update booking.resources set slot_minutes = %d`, 10+random.IntN(90)))
				do, own, span, seats := step(random, d, model, hall.Capacity)
				o, err := d.try(do)
				if err != nil {
					t.Fatal(err)
				}
				if span.End.IsZero() && o.Refusal == nil {
					span = o.Booking.Span()
				}
				if left, taken := refusedAs(o); taken {
					if span.End.IsZero() {
						span.End = span.Start.Add(time.Duration(d.count(`select slot_minutes from booking.resources`)) * time.Minute)
					}
					if want := leftIn(model, own, span, hall.Capacity); left != want || left >= seats {
						t.Fatalf("refused %d seats in %v with %d left, the model says %d", seats, span, left, want)
					}
					continue
				}
				if o.Refusal != nil {
					t.Fatal(o.Refusal)
				}
				if want := leftIn(model, own, span, hall.Capacity); seats > 0 && seats > want {
					t.Fatalf("took %d seats in %v, the model says %d are left", seats, span, want)
				}
				delete(model, o.Booking.ID)
				if o.Booking.Status == booking.Confirmed {
					model[o.Booking.ID] = o.Booking
				}
			}
			want := 0
			for _, b := range model {
				want += b.Seats
			}
			if n := d.count(`select count(*) from booking.seats`); n != want {
				t.Errorf("%d rows of seats, %d are booked", n, want)
			}
		})
	}
}

// step draws what to do next: with whose own seats left out, when, and how many more seats it
// takes.
func step(random *rand.Rand, d *desk, model map[string]booking.Booking, capacity int) (do func(app.Call) (app.Answer, error), own string, span booking.Span, seats int) {
	at := base.Add(time.Duration(random.IntN(300)) * time.Minute)
	var some booking.Booking
	for _, b := range model {
		some = b
		break
	}
	switch kind := random.IntN(10); {
	case kind < 4 || some.ID == "":
		seats = 1 + random.IntN(min(2, capacity))
		return d.book(request("hall", at, seats)), "", booking.Span{Start: at}, seats
	case kind < 6:
		if at.Equal(some.Start) {
			at = at.Add(time.Minute)
		}
		return d.move(some.ID, at), some.ID, booking.Span{Start: at, End: at.Add(some.End.Sub(some.Start))}, some.Seats
	case kind < 8:
		n := 1 + random.IntN(capacity)
		return d.edit(some.ID, booking.Edit{Seats: new(n)}), "", some.Span(), n - some.Seats
	default:
		return d.cancel(some.ID), "", some.Span(), 0
	}
}

// leftIn counts heads at the start of the span and at each start within it.
func leftIn(model map[string]booking.Booking, own string, span booking.Span, capacity int) int {
	at := func(instant time.Time) (load int) {
		for id, b := range model {
			if id != own && !instant.Before(b.Start) && instant.Before(b.End) {
				load += b.Seats
			}
		}
		return load
	}
	most := at(span.Start)
	for _, b := range model {
		if b.Start.After(span.Start) && b.Start.Before(span.End) {
			most = max(most, at(b.Start))
		}
	}
	return max(0, capacity-most)
}

// B128, B131: whoever races for the last seats, exactly as many win as there are, nobody gets
// an error, and a seat that comes free is won once.
func TestB131Race(t *testing.T) {
	t.Parallel()
	d := newDesk(t, room("hall", 5))
	won := race(t, 100, func(int) (outcome, error) { return d.try(d.book(request("hall", base, 1))) })
	if len(won) != 5 {
		t.Fatalf("%d of 5 seats were booked", len(won))
	}
	d.must(d.cancel(won[0].Booking.ID))
	if again := race(t, 30, func(int) (outcome, error) { return d.try(d.book(request("hall", base, 1))) }); len(again) != 1 {
		t.Errorf("%d bookings for one seat", len(again))
	}
	// Moves of different bookings into one another's place, in both directions at once.
	at := base.Add(48 * time.Hour)
	var pair []booking.Booking
	for i := range 4 {
		pair = append(pair, d.must(d.book(request("hall", at.Add(time.Duration(i)*time.Hour), 4))))
	}
	race(t, 40, func(i int) (outcome, error) {
		return d.try(d.move(pair[i%4].ID, at.Add(time.Duration(i%7)*time.Hour)))
	})
}

// race runs do n times at once and returns what was not refused.
func race(t *testing.T, n int, do func(int) (outcome, error)) (won []outcome) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			o, err := do(i)
			mu.Lock()
			defer mu.Unlock()
			switch _, taken := refusedAs(o); {
			case err != nil:
				t.Error(err)
			case o.Refusal == nil:
				won = append(won, o)
			case !taken:
				t.Error(o.Refusal)
			}
		})
	}
	all.Wait()
	return won
}

// B123: three people in one slot of three seats: three bookings, events and seats of their own.
func TestB123ThreePeopleThreeEvents(t *testing.T) {
	t.Parallel()
	d := newDesk(t, room("hall", 3))
	for i := range 3 {
		r := request("hall", base, 1)
		r.Address = fmt.Sprintf("p%d@x.example", i)
		b := d.must(d.book(r))
		if e := d.events(b.ID); len(e) != 1 || e[0].Data.ToldCustomer != 1 || e[0].Data.RemindAt == nil {
			t.Errorf("events of %d: %+v", i, e)
		}
	}
	if n := d.count(`select count(distinct seat) from booking.seats`); n != 3 {
		t.Errorf("%d seats", n)
	}
}
