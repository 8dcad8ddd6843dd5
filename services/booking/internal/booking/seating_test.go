package booking_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

func span(from, to int) booking.Span {
	return booking.Span{Start: now.Add(time.Duration(from) * time.Minute), End: now.Add(time.Duration(to) * time.Minute)}
}

func seat(name string, number, from, to int) booking.Seat {
	return booking.Seat{Booking: name, Number: number, Span: span(from, to)}
}

func TestLeft(t *testing.T) {
	tests := map[string]struct {
		others []booking.Seat
		want   int
	}{
		"nobody":                         {nil, 3},
		"one":                            {[]booking.Seat{seat("a", 1, 0, 60)}, 2},
		"next to it":                     {[]booking.Seat{seat("a", 1, -60, 0), seat("b", 1, 60, 120)}, 3},
		"one after the other":            {[]booking.Seat{seat("a", 1, 0, 30), seat("b", 1, 30, 60)}, 2},
		"both at once":                   {[]booking.Seat{seat("a", 1, 0, 31), seat("b", 2, 30, 60)}, 1},
		"an overlap that is over before": {[]booking.Seat{seat("a", 1, -60, 10), seat("b", 2, -60, -10), seat("c", 2, 20, 90)}, 2},
		"capacity was lowered":           {[]booking.Seat{seat("a", 1, 0, 60), seat("b", 2, 0, 60), seat("c", 3, 0, 60), seat("d", 4, 0, 60)}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := booking.Left(blocks(tt.others), span(0, 60), 3); got != tt.want {
				t.Errorf("Left = %d, want %d", got, tt.want)
			}
		})
	}
}

// blocks puts seats of one span together.
func blocks(seats []booking.Seat) (all []booking.Block) {
	for _, s := range seats {
		at := slices.IndexFunc(all, func(b booking.Block) bool { return b.Span == s.Span })
		if at < 0 {
			at, all = len(all), append(all, booking.Block{Span: s.Span})
		}
		all[at].Numbers = append(all[at].Numbers, s.Number)
	}
	return all
}

func TestLowest(t *testing.T) {
	taken := blocks([]booking.Seat{seat("a", 1, 0, 60), seat("b", 3, 0, 60), seat("c", 3, 60, 90)})
	for _, tt := range []struct {
		n, capacity int
		numbers     []int
		sure        bool
	}{{1, 4, []int{2}, true}, {2, 4, []int{2, 4}, true}, {3, 4, []int{2, 4}, false}, {1, 2, []int{2}, false}, {2, 2, []int{2}, false}} {
		if numbers, sure := booking.Lowest(taken, tt.n, tt.capacity); !slices.Equal(numbers, tt.numbers) || sure != tt.sure {
			t.Errorf("%d of %d: %v, %t", tt.n, tt.capacity, numbers, sure)
		}
	}
}

// The smallest case: two seats, both needed by somebody at some time of the hour.
func TestRenumber(t *testing.T) {
	others := []booking.Seat{seat("a", 1, -30, 30), seat("b", 2, 30, 90)}
	numbers, renumbered, settled := booking.Renumber(others, span(0, 60), 1, 2, span(0, 60).End)
	if !slices.Equal(numbers, []int{2}) || !slices.Equal(renumbered, []booking.Renumbering{{Booking: "b", From: 2, To: 1}}) {
		t.Errorf("numbers %v, renumbered %v", numbers, renumbered)
	}
	if settled {
		t.Error("b reaches beyond the horizon, and yet it is settled")
	}
	if _, _, settled = booking.Renumber(others, span(0, 60), 1, 2, span(0, 90).End); !settled {
		t.Error("not settled at the end of b")
	}
}

// Random bookings, moves and cancellations of random length and size against a model that
// only counts who is there each minute: what fits gets numbers, what does not is refused, and
// no two seats that overlap ever have one number.
func TestRenumberAgainstTheLoad(t *testing.T) {
	renumberings := 0
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		capacity := 1 + random.IntN(6)
		var all []booking.Seat
		for i := range 150 {
			if len(all) > 0 && random.IntN(4) == 0 {
				gone := all[random.IntN(len(all))].Booking
				all = slices.DeleteFunc(all, func(s booking.Seat) bool { return s.Booking == gone })
			}
			if i == 100 {
				capacity = max(1, capacity-2) // what is booked stays
			}
			from := random.IntN(200)
			want, n := span(from, from+1+random.IntN(40)), 1+random.IntN(2)
			others := slices.DeleteFunc(slices.Clone(all), func(s booking.Seat) bool { return !overlap(s.Span, want) })
			left := booking.Left(blocks(others), want, capacity)
			if model := modelLeft(all, want, capacity); left != model {
				t.Fatalf("seed %d: Left = %d, the model says %d", seed, left, model)
			}
			lowest, sure := booking.Lowest(blocks(others), n, capacity)
			if sure && (left < n || len(lowest) != n) {
				t.Fatalf("seed %d: sure of %v with %d left", seed, lowest, left)
			}
			for _, number := range lowest {
				if number < 1 || number > capacity || slices.ContainsFunc(others, func(s booking.Seat) bool { return s.Number == number }) {
					t.Fatalf("seed %d: number %d is not free", seed, number)
				}
			}
			if left < n {
				continue
			}
			numbers, changes := settle(t, all, want, n, capacity)
			renumberings += len(changes)
			for _, c := range changes {
				at := slices.IndexFunc(all, func(s booking.Seat) bool {
					return s.Booking == c.Booking && s.Number == c.From && s.Start.After(want.Start.Add(-time.Second))
				})
				all[at].Number = -c.To // so that a swap within one booking is no chain
			}
			for i := range all {
				all[i].Number = max(all[i].Number, -all[i].Number)
			}
			for _, number := range numbers {
				all = append(all, booking.Seat{Booking: fmt.Sprint(i), Number: number, Span: want})
				if number < 1 || number > capacity {
					t.Fatalf("seed %d: number %d of %d", seed, number, capacity)
				}
			}
			apart(t, all)
		}
	}
	if renumberings < 100 {
		t.Errorf("only %d seats were renumbered: the test shows little", renumberings)
	}
}

// settle asks with a later horizon until the answer is settled, as the store does.
func settle(t *testing.T, all []booking.Seat, want booking.Span, n, capacity int) ([]int, []booking.Renumbering) {
	t.Helper()
	for horizon := want.End; ; horizon = horizon.Add(7 * time.Minute) {
		known := slices.DeleteFunc(slices.Clone(all), func(s booking.Seat) bool {
			return !overlap(s.Span, booking.Span{Start: want.Start, End: horizon})
		})
		numbers, changes, settled := booking.Renumber(known, want, n, capacity, horizon)
		if settled {
			return numbers, changes
		}
		if horizon.Sub(want.End) > 24*time.Hour {
			t.Fatal("never settled")
		}
	}
}

func overlap(a, b booking.Span) bool { return a.Start.Before(b.End) && b.Start.Before(a.End) }

func modelLeft(all []booking.Seat, want booking.Span, capacity int) int {
	left := capacity
	for at := want.Start; at.Before(want.End); at = at.Add(time.Minute) {
		load := 0
		for _, s := range all {
			if !at.Before(s.Start) && at.Before(s.End) {
				load++
			}
		}
		left = min(left, capacity-load)
	}
	return max(0, left)
}

func apart(t *testing.T, all []booking.Seat) {
	t.Helper()
	for i, a := range all {
		for _, b := range all[:i] {
			if a.Number == b.Number && overlap(a.Span, b.Span) {
				t.Fatalf("%+v and %+v", a, b)
			}
		}
	}
}

func TestSeating(t *testing.T) {
	b := booked(t)
	tests := map[string]struct {
		change func() (booking.Change, error)
		want   booking.Seating
	}{
		"book":       {func() (booking.Change, error) { return booking.Book(id, ada, request(), terms()) }, booking.Seating{Take: 2, Span: b.Span(), Field: "start"}},
		"cancel":     {func() (booking.Change, error) { return b.Cancel(terms()), nil }, booking.Seating{Release: 2}},
		"more seats": {func() (booking.Change, error) { return b.Edit(booking.Edit{Seats: new(4)}, ada, terms()) }, booking.Seating{Take: 2, Span: b.Span(), Field: "seats"}},
		"less seats": {func() (booking.Change, error) { return b.Edit(booking.Edit{Seats: new(1)}, ada, terms()) }, booking.Seating{Release: 1}},
		"note":       {func() (booking.Change, error) { return b.Edit(booking.Edit{Note: new("x")}, ada, terms()) }, booking.Seating{}},
		"move": {
			func() (booking.Change, error) { return b.Move(b.Start.Add(time.Hour), terms()) },
			booking.Seating{Release: 2, Take: 2, Span: booking.Span{Start: b.Start.Add(time.Hour), End: b.End.Add(time.Hour)}, Field: "start"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := tt.change()
			if got := c.Seating(); err != nil || got != tt.want {
				t.Errorf("Seating = %+v, want %+v (%v)", got, tt.want, err)
			}
		})
	}
	if !booking.Refused(errors.Join(&booking.TakenError{})) || booking.Refused(errors.New("x")) {
		t.Error("Refused is wrong")
	}
}
