package store_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// as lets a caller do something under an idempotency key.
func as(caller string, nobodys bool, do func(app.Call) (app.Answer, error)) func(app.Call) (app.Answer, error) {
	return func(c app.Call) (app.Answer, error) {
		c.Key.Caller, c.Key.Nobodys = caller, nobodys
		return do(c)
	}
}

// A name is its caller's own: nobody gets another's answer, and nobody's request is refused
// because somebody else has used the name first.
func TestAKeyIsItsCallersOwn(t *testing.T) {
	t.Parallel()
	d := newDesk(t, room("hall", 100))
	seat := d.book(request("hall", base, 1))
	answers := map[string]app.Answer{}
	callers := []string{"key_a", "key_b", "", "key_c"}
	for _, caller := range callers {
		o, err := d.try(as(caller, false, seat), "order-1")
		if err != nil || o.Refusal != nil {
			t.Fatalf("%q: %v %v", caller, err, o.Refusal)
		}
		for other, answer := range answers {
			if string(answer.Body) == string(o.answer.Body) {
				t.Errorf("%q got the answer of %q", caller, other)
			}
		}
		answers[caller] = o.answer
	}
	for _, caller := range callers {
		if o, err := d.try(as(caller, false, seat), "order-1"); err != nil || !reflect.DeepEqual(o.answer, answers[caller]) {
			t.Errorf("%q again: %+v, %v", caller, o.answer, err)
		}
		_, err := d.try(as(caller, false, func(c app.Call) (app.Answer, error) {
			c.Key.Fingerprint = []byte("another")
			return seat(c)
		}), "order-1")
		if !errors.Is(err, app.ErrKeyReused) {
			t.Errorf("%q with another request: %v", caller, err)
		}
	}
	if n := d.count(`select count(*) from booking.bookings`); n != len(callers) {
		t.Errorf("%d bookings", n)
	}
	// The first caller's goes, and with it the name is free: the others keep theirs.
	d.exec(`delete from booking.idempotency_keys where caller = 'key_a'`)
	for _, caller := range callers[1:] {
		if o, err := d.try(as(caller, false, seat), "order-1"); err != nil || !reflect.DeepEqual(o.answer, answers[caller]) {
			t.Errorf("%q later: %+v, %v", caller, o.answer, err)
		}
	}
}

// The last release stores and finds answers by name alone. A request that is repeated across a
// rollout is done once, in both directions.
func TestKeysOfTheLastRelease(t *testing.T) {
	t.Parallel()
	d := newDesk(t, room("hall", 100))
	seat := d.book(request("hall", base, 1))

	d.exec(`insert into booking.idempotency_keys (key, fingerprint, status, header, body) values ('order-1', 'order-1', 201, '{"ETag": "1"}', 'stored')`)
	if o, err := d.try(as("key_a", true, seat), "order-1"); err != nil || string(o.answer.Body) != "stored" || o.answer.Status != 201 {
		t.Errorf("stored by the last release: %+v, %v", o.answer, err)
	}
	_, err := d.try(as("key_a", true, func(c app.Call) (app.Answer, error) {
		c.Key.Fingerprint = []byte("another")
		return seat(c)
	}), "order-1")
	if !errors.Is(err, app.ErrKeyReused) {
		t.Errorf("another request under it: %v", err)
	}
	if o, err := d.try(as("key_b", false, seat), "order-1"); err != nil || string(o.answer.Body) == "stored" {
		t.Errorf("who may not have nobody's answer got %+v, %v", o.answer, err)
	}

	o, err := d.try(as("key_a", true, seat), "order-2")
	if err != nil {
		t.Fatal(err)
	}
	var fingerprint, body []byte
	if err := d.db.Admin.QueryRow(t.Context(), `select fingerprint, body from booking.idempotency_keys where key = 'order-2'`).Scan(&fingerprint, &body); err != nil {
		t.Fatal(err)
	}
	if string(fingerprint) != "order-2" || string(body) != string(o.answer.Body) {
		t.Errorf("the last release finds %q %q", fingerprint, body)
	}
}

// A booking of a resource that the caller may not know of is none, whatever is asked of it.
func TestOtherResourcesAreHidden(t *testing.T) {
	t.Parallel()
	d := newDesk(t, room("hall", 100), room("cellar", 100))
	b := d.must(d.book(request("hall", base, 1)))
	sees := func(resources ...string) func(string) bool {
		return func(resource string) bool { return slices.Contains(resources, resource) }
	}
	for what, do := range map[string]func(app.Call) (app.Answer, error){
		"edit":   d.edit(b.ID, booking.Edit{Note: new("x")}),
		"seats":  d.edit(b.ID, booking.Edit{Seats: new(2)}),
		"move":   d.move(b.ID, base.AddDate(0, 0, 1)),
		"cancel": d.cancel(b.ID),
	} {
		o, err := d.try(func(c app.Call) (app.Answer, error) {
			c.Sees, c.Match = sees("cellar"), func(int64) bool { return false } // nor whether the version is right
			return do(c)
		})
		if err != nil || !errors.Is(o.Refusal, booking.ErrNotFound) {
			t.Errorf("%s: %v, %v", what, o.Refusal, err)
		}
	}
	if n := d.count(`select max(version) from booking.bookings`); n != 1 {
		t.Errorf("version %d", n)
	}
	moved := d.must(func(c app.Call) (app.Answer, error) {
		c.Sees = sees("hall", "cellar")
		return d.move(b.ID, base.AddDate(0, 0, 1))(c)
	})
	if moved.Version != 2 {
		t.Errorf("its own: version %d", moved.Version)
	}
}
