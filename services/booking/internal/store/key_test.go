package store_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// B137: one key, twenty at once: one booking; everybody else is told to wait or gets the same
// answer.
func TestB137OneKeyOneBooking(t *testing.T) {
	t.Parallel()
	d := newDesk(t, room("hall", 100))
	answers := make(chan app.Answer, 20)
	for range 20 {
		go func() {
			o, err := d.try(d.book(request("hall", base, 1)), "key-1")
			if err != nil && !errors.Is(err, app.ErrKeyRunning) {
				t.Error(err)
			}
			answers <- o.answer
		}()
	}
	var first app.Answer
	for range 20 {
		answer := <-answers
		switch {
		case answer.Status == 0: // still running
		case first.Status == 0:
			first = answer
		case !reflect.DeepEqual(answer, first):
			t.Errorf("another answer: %+v, first %+v", answer, first)
		}
	}
	if first.Status == 0 {
		t.Error("nobody got through")
	}
	if n := d.count(`select count(*) from booking.bookings`); n != 1 {
		t.Errorf("%d bookings", n)
	}
}

// A refusal of the domain is an answer: it comes again although the slot is free by now.
func TestARefusalIsKept(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.must(d.book(request("room", base, 1)))
	first, err := d.try(d.book(request("room", base, 1)), "key-1")
	if _, taken := refusedAs(first); err != nil || !taken {
		t.Fatal(err, first.Refusal)
	}
	d.must(d.cancel(b.ID))
	again, err := d.try(d.book(request("room", base, 1)), "key-1")
	if err != nil || !reflect.DeepEqual(again.answer, first.answer) || again.Refusal != nil {
		t.Errorf("again: %+v, %v", again, err)
	}
}

func TestAKeyIsForOneRequest(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if _, err := d.try(d.book(request("room", base, 1)), "key-1"); err != nil {
		t.Fatal(err)
	}
	_, err := d.try(func(c app.Call) (app.Answer, error) {
		c.Key.Fingerprint = []byte("another")
		return d.Book(t.Context(), c, request("room", base, 1))
	}, "key-1")
	if !errors.Is(err, app.ErrKeyReused) {
		t.Errorf("got %v", err)
	}
}

// While the first request runs nobody waits for it, not even for the resource that it has.
func TestStillRunning(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	tx, err := d.db.Pool("slotwise_booking").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // rolled back below
	if err := tx.QueryRow(t.Context(), `select from booking.resources where id = 'room' for update`).Scan(); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select pg_advisory_xact_lock(hashtextextended('slotwise idempotency key ' || $1, 0))`, "key-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.try(d.book(request("room", base, 1)), "key-1"); !errors.Is(err, app.ErrKeyRunning) {
		t.Errorf("got %v", err)
	}
	// B140: the first one dies before its commit; the retry is as if it had never been.
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o, err := d.try(d.book(request("room", base, 1)), "key-1"); err != nil || o.Refusal != nil {
		t.Errorf("after the crash: %v, %v", err, o.Refusal)
	}
}

// No answer is kept of what failed.
func TestB140AFailureIsNotKept(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	failing := errors.New("encode failed")
	_, err := d.try(func(c app.Call) (app.Answer, error) {
		c.Encode = func(app.Outcome) (app.Answer, error) { return app.Answer{}, failing }
		return d.Book(t.Context(), c, request("room", base, 1))
	}, "key-1")
	if !errors.Is(err, failing) {
		t.Fatal(err)
	}
	if n := d.count(`select (select count(*) from booking.idempotency_keys) + (select count(*) from booking.bookings)`); n != 0 {
		t.Errorf("%d rows", n)
	}
	if o, err := d.try(d.book(request("room", base, 1)), "key-1"); err != nil || o.Refusal != nil {
		t.Errorf("again: %v, %v", err, o.Refusal)
	}
}

// Every version once, whoever races (B130): each of the writers means the version it has read.
func TestB130CompareAndSet(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.must(d.book(request("room", base, 1)))
	v1 := func(version int64) bool { return version == 1 }
	won := make(chan bool, 20)
	for i := range 20 {
		go func() {
			o, err := d.try(func(c app.Call) (app.Answer, error) {
				c.Match = v1
				switch i % 3 {
				case 0:
					return d.Cancel(t.Context(), c, b.ID)
				case 1:
					return d.Move(t.Context(), c, b.ID, base.AddDate(0, 0, i))
				}
				return d.Edit(t.Context(), c, b.ID, booking.Edit{Note: new("x")})
			})
			if err != nil || o.Refusal != nil && !errors.Is(o.Refusal, booking.ErrVersion) {
				t.Error(err, o.Refusal)
			}
			won <- o.Refusal == nil
		}()
	}
	winners := 0
	for range 20 {
		if <-won {
			winners++
		}
	}
	if events := d.events(b.ID); winners != 1 || len(events) != 2 || events[1].Data.Version != 2 {
		t.Errorf("%d winners, %d events", winners, len(events))
	}
}
