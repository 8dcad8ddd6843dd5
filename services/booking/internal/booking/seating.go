package booking

import (
	"cmp"
	"slices"
	"time"
)

// Span is a half-open stretch of time.
type Span struct{ Start, End time.Time }

func (s Span) overlaps(t Span) bool { return s.Start.Before(t.End) && t.Start.Before(s.End) }

// Seating is what a change does to the seats of its resource: first booking's own seats are
// released, then others are taken.
type Seating struct {
	Release int
	Take    int
	Span    Span   // in which they are taken
	Field   string // what to ask for differently when there are too few
}

// None reports whether the change leaves seats alone.
func (s Seating) None() bool { return s.Release == 0 && s.Take == 0 }

// Seating returns what c does to seats. More seats in the same time are taken in addition, so
// that a booking never loses what it has.
func (c Change) Seating() Seating {
	before, after := c.Before, c.After
	more := after.Seats - before.Seats
	switch {
	case before.ID == "":
		return Seating{Take: after.Seats, Span: after.Span(), Field: "start"}
	case before.Status != after.Status:
		return Seating{Release: before.Seats}
	case before.Span() != after.Span():
		return Seating{Release: before.Seats, Take: after.Seats, Span: after.Span(), Field: "start"}
	case more > 0:
		return Seating{Take: more, Span: after.Span(), Field: "seats"}
	}
	return Seating{Release: -more}
}

// Seat is one seat number, taken by a booking for its span. Seats that overlap have different
// numbers.
type Seat struct {
	Booking string
	Number  int
	Span
}

// Block is all seats that are taken for the same span.
type Block struct {
	Span
	Numbers []int
}

// Lowest returns the lowest free numbers up to n, when taken holds every seat that overlaps the
// time. It is sure when these prove that n more fit: there are enough, and no seat has a
// number above the capacity, left from when that was higher.
func Lowest(taken []Block, n, capacity int) (numbers []int, sure bool) {
	busy := make([]bool, capacity+1)
	sure = true
	for _, block := range taken {
		for _, number := range block.Numbers {
			if number > capacity {
				sure = false
				continue
			}
			busy[number] = true
		}
	}
	for number := 1; number <= capacity && len(numbers) < n; number++ {
		if !busy[number] {
			numbers = append(numbers, number)
		}
	}
	return numbers, sure && len(numbers) == n
}

// Left returns how many more seats are free throughout span when taken holds every seat that
// overlaps it: the capacity less the highest load. It is 0 also when more is booked than the
// capacity, which was lowered since.
func Left(taken []Block, span Span, capacity int) int {
	type step struct {
		at    time.Time
		seats int
	}
	var steps []step
	for _, b := range taken {
		if b.overlaps(span) {
			steps = append(steps, step{later(b.Start, span.Start), len(b.Numbers)}, step{b.End, -len(b.Numbers)})
		}
	}
	slices.SortFunc(steps, func(a, b step) int { // at one instant the ends come first: spans are half-open
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.seats, b.seats))
	})
	load, highest := 0, 0
	for _, s := range steps {
		load += s.seats
		highest = max(highest, load)
	}
	return max(0, capacity-highest)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
