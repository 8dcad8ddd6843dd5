package booking

import (
	"cmp"
	"slices"
	"time"
)

// Renumbering gives a seat of a booking another number.
type Renumbering struct {
	Booking  string
	From, To int
}

// Renumber finds numbers for n more seats throughout span when the load fits (see [Left]) but
// no n numbers are free throughout. Seats that began before span keep their numbers; of those
// that begin later, in order of time, each keeps its number unless it was given away, and then
// gets one that is free at its start. One always is: at no time are there more seats than
// numbers.
//
// Others must hold every seat that overlaps the time from span's start to horizon. When a
// renumbered seat reaches beyond horizon, the result is not settled: ask again with a later
// horizon.
func Renumber(others []Seat, span Span, n, capacity int, horizon time.Time) (numbers []int, renumbered []Renumbering, settled bool) {
	inOrder := slices.SortedFunc(slices.Values(others), func(a, b Seat) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Number, b.Number))
	})
	p := newRota(inOrder, capacity)
	begun, _ := slices.BinarySearchFunc(inOrder, span.Start, func(s Seat, at time.Time) int { return s.Start.Compare(at) })
	for _, s := range inOrder[:begun] {
		p.busy[s.Number] = s.End
	}
	if numbers = p.pick(n, span.Start, capacity); len(numbers) < n {
		return nil, nil, false
	}
	for _, number := range numbers {
		p.busy[number] = span.End
	}
	reach := span.End
	for _, s := range inOrder[begun:] {
		number := s.Number
		if p.busy[number].After(s.Start) {
			free := p.pick(1, s.Start, len(p.busy)-1)
			if len(free) == 0 {
				return nil, nil, false
			}
			number = free[0]
			renumbered = append(renumbered, Renumbering{s.Booking, s.Number, number})
			reach = later(reach, s.End)
		}
		p.busy[number] = s.End
	}
	return numbers, renumbered, !horizon.Before(reach)
}

// never is later than every start.
var never = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)

// rota is who has which number while time goes on.
type rota struct {
	busy   []time.Time   // by number: taken until then; 0 is no number
	starts [][]time.Time // by number: when seats that have it now begin
}

func newRota(inOrder []Seat, capacity int) rota {
	highest := capacity // numbers above it are left from a higher capacity
	for _, s := range inOrder {
		highest = max(highest, s.Number)
	}
	p := rota{make([]time.Time, highest+1), make([][]time.Time, highest+1)}
	for _, s := range inOrder {
		p.starts[s.Number] = append(p.starts[s.Number], s.Start)
	}
	return p
}

// pick returns up to n numbers, at most highest, that are free at the time at: first those
// that nobody needs for longest, so that few other seats have to change.
func (p rota) pick(n int, at time.Time, highest int) []int {
	type candidate struct {
		number int
		needed time.Time
	}
	var free []candidate
	for number := 1; number <= highest; number++ {
		if p.busy[number].After(at) {
			continue
		}
		c := candidate{number, never}
		next, _ := slices.BinarySearchFunc(p.starts[number], at, time.Time.Compare)
		if next < len(p.starts[number]) {
			c.needed = p.starts[number][next]
		}
		free = append(free, c)
	}
	slices.SortStableFunc(free, func(a, b candidate) int { return b.needed.Compare(a.needed) })
	numbers := make([]int, 0, n)
	for _, c := range free[:min(n, len(free))] {
		numbers = append(numbers, c.number)
	}
	return numbers
}
