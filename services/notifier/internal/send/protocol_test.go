package send_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/mailtest"
	"github.com/slotwise/slotwise/testkit/seed"
)

var protocolFor = flag.Duration("protocol", 12*time.Second, "how long TestProtocol makes trouble")

// TestProtocol books, moves and cancels while senders are frozen and killed at random and the
// mail server is late, silent, deaf or wrong, with all times made small. Afterwards every mail
// is accounted for, copies beyond the first are never more than the marks, hand by hand, and
// the last mail that each booking got is true.
func TestProtocol(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Lease, times.Renew, times.Sweep = 300*time.Millisecond, 100*time.Millisecond, 50*time.Millisecond
	times.Dot, times.Answer, times.Cap, times.Quiet = time.Second, 700*time.Millisecond, 2*time.Second, 5*time.Second
	times.MaxUnknowns, times.MaxAttempts = 1000, 1000
	s := newStage(t, times, mailtest.Options{})
	s.mail.Script(trouble()...)

	ctx, calm := context.WithTimeout(t.Context(), *protocolFor)
	defer calm()
	var children [3]*child
	for i := range children {
		children[i] = s.startChild(3)
	}
	bookings := map[string]seed.Booking{}
	var waiting []seed.Booking
	var thawing sync.WaitGroup
	for next := time.Now(); ctx.Err() == nil; <-time.After(rand.N(20 * time.Millisecond)) {
		b := s.book()
		s.plan(message(b, sendlog.Confirm))
		bookings[b.ID] = b
		waiting = append(waiting, b)
		if i := rand.IntN(len(waiting)); rand.IntN(3) > 0 {
			b, kind := s.change(waiting[i])
			s.plan(message(b, kind))
			bookings[b.ID] = b
			waiting[i] = b
			if kind == sendlog.Cancel {
				waiting = append(waiting[:i], waiting[i+1:]...)
			}
		}
		if time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(200 * time.Millisecond)
		thawing.Wait()
		i := rand.IntN(len(children))
		if rand.IntN(4) == 0 {
			children[i].kill()
			children[i] = s.startChild(3)
			continue
		}
		children[i].freeze()
		thawing.Go(func() {
			<-time.After(50*time.Millisecond + rand.N(850*time.Millisecond))
			children[i].thaw()
		})
	}
	thawing.Wait()
	s.mail.Script()
	s.settle()
	s.copiesAreMarked()
	s.copiesAreCounted()
	s.lastIsTrue(bookings)
}

// trouble is what the mail server does wrong, at random.
func trouble() []mailtest.Fault {
	one := func(in int) func(mailtest.Command) bool {
		return func(mailtest.Command) bool { return rand.IntN(in) == 0 }
	}
	return []mailtest.Fault{
		{Phase: mailtest.MAIL, Match: one(50), End: mailtest.Closed},
		{Phase: mailtest.RCPT, Match: one(30), Reply: "450 4.2.1 later"},
		{Phase: mailtest.DATA, Match: one(30), Delay: 500 * time.Millisecond},
		{Phase: mailtest.DATA, Match: one(30), End: mailtest.Closed},
		{Phase: mailtest.Dot, Match: one(20), Delay: 900 * time.Millisecond}, // longer than a sender waits, and then taken
		{Phase: mailtest.Dot, Match: one(20), End: mailtest.Closed},          // taken, and no answer
		{Phase: mailtest.Dot, Match: one(30), Reply: "451 4.3.0 later"},
		{Phase: mailtest.Dot, Match: one(3), Late: 20 * time.Millisecond},
	}
}

// change moves or cancels b.
func (s *stage) change(b seed.Booking) (seed.Booking, sendlog.Kind) {
	s.t.Helper()
	if rand.IntN(2) == 0 {
		return s.seed.Move(b, b.Start.Add(time.Hour)), sendlog.Move
	}
	return s.seed.Cancel(b), sendlog.Cancel
}

// settle waits until nothing waits or is in hand.
func (s *stage) settle() {
	s.t.Helper()
	left := int64(-1)
	for end := time.Now().Add(3 * soon); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		if left = s.number(`select count(*) from notifier.send_log where state in ('planned', 'unknown', 'handed')`); left == 0 {
			return
		}
	}
	s.t.Fatalf("%d mails are left", left)
}

// copiesAreCounted: no row has more copies beyond the first than marks.
func (s *stage) copiesAreCounted() {
	s.t.Helper()
	rows, err := s.db.Admin.Query(s.t.Context(), `select key, unknowns, state from notifier.send_log`)
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	copies := s.copies()
	second, marks := 0, 0
	for rows.Next() {
		var key string
		var unknowns int
		var state sendlog.State
		if err := rows.Scan(&key, &unknowns, &state); err != nil {
			s.t.Fatal(err)
		}
		n := copies[key]
		second, marks = second+max(0, n-1), marks+unknowns
		if n-1 > unknowns || state == sendlog.Sent && n == 0 || state == sendlog.Skipped && n > unknowns {
			s.t.Errorf("%s is %s: %d copies, %d marks", key, state, n, unknowns)
		}
	}
	if rows.Err() != nil {
		s.t.Fatal(rows.Err())
	}
	s.t.Logf("%d mails accepted, %d second copies, %d marks", len(s.mail.Messages()), second, marks)
}

// lastIsTrue: the last mail that each booking got is about the booking as it stands.
func (s *stage) lastIsTrue(bookings map[string]seed.Booking) {
	s.t.Helper()
	last := map[string]string{}
	for _, m := range s.mail.Messages() {
		last[bookingOf(key(m))] = key(m)
	}
	untrue := 0
	for _, b := range bookings {
		kind := sendlog.Confirm
		switch {
		case b.Status == "cancelled":
			kind = sendlog.Cancel
		case b.Version > 1:
			kind = sendlog.Move
		}
		if want := message(b, kind).Key; last[b.ID] != want {
			untrue++
			s.t.Errorf("the last mail was %s, want %s", last[b.ID], want)
		}
	}
	s.t.Logf("%d of %d bookings got a last mail that is untrue", untrue, len(bookings))
}
