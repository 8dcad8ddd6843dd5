package store_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
	"github.com/slotwise/slotwise/services/booking/internal/store"
	"github.com/slotwise/slotwise/testkit/dbtest"
)

// desk is the use cases over a database of the test's own.
type desk struct {
	app.Bookings
	t     *testing.T
	db    *dbtest.DB
	store *store.Store
	rings bell
}

type bell chan struct{}

func (b bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

func newDesk(t *testing.T, resources ...booking.Resource) *desk {
	t.Helper()
	db := dbtest.New(t)
	return deskOn(t, db, db.Pool("slotwise_booking"), resources...)
}

func deskOn(t *testing.T, db *dbtest.DB, pool *pgxpool.Pool, resources ...booking.Resource) *desk {
	t.Helper()
	s, err := store.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	if len(resources) == 0 {
		resources = []booking.Resource{room("room", 1)}
	}
	if _, err := s.PutResources(t.Context(), resources); err != nil {
		t.Fatal(err)
	}
	rings := make(bell, 1)
	return &desk{app.Bookings{Store: s, Bell: rings, Lead: 24 * time.Hour}, t, db, s, rings}
}

func room(id string, capacity int) booking.Resource {
	return booking.Resource{ID: id, Name: "Room", Zone: "Europe/Berlin", Capacity: capacity, SlotMinutes: 60, HostAddress: "host@x.example"}
}

// base is a start that lies far enough ahead for every test.
var base = time.Date(2040, 1, 1, 9, 0, 0, 0, time.UTC)

func request(resource string, start time.Time, seats int) booking.Request {
	return booking.Request{Resource: resource, Start: start, Seats: seats, Name: "Ada", Address: "ada@x.example", Locale: "en"}
}

// outcome is what an encode of these tests saw.
type outcome struct {
	app.Outcome
	answer app.Answer
}

// call returns a call that keeps the outcome in o.
func call(o *outcome, key ...string) app.Call {
	c := app.Call{Encode: func(got app.Outcome) (app.Answer, error) {
		o.Outcome = got
		status := http.StatusOK
		if got.Refusal != nil {
			status = http.StatusConflict
		}
		return app.Answer{Status: status, Header: map[string]string{"ETag": fmt.Sprint(got.Booking.Version)}, Body: []byte(got.Booking.ID)}, nil
	}}
	if len(key) > 0 {
		c.Key = app.Key{Name: key[0], Fingerprint: []byte(key[0])}
	}
	return c
}

func (d *desk) try(do func(app.Call) (app.Answer, error), key ...string) (outcome, error) {
	var o outcome
	answer, err := do(call(&o, key...))
	o.answer = answer
	return o, err
}

// must runs a change that is not refused.
func (d *desk) must(do func(app.Call) (app.Answer, error)) booking.Booking {
	d.t.Helper()
	o, err := d.try(do)
	if err = errors.Join(err, o.Refusal); err != nil {
		d.t.Fatal(err)
	}
	return o.Booking
}

func (d *desk) book(r booking.Request) func(app.Call) (app.Answer, error) {
	return func(c app.Call) (app.Answer, error) { return d.Book(context.WithoutCancel(d.t.Context()), c, r) }
}

func (d *desk) edit(id string, e booking.Edit) func(app.Call) (app.Answer, error) {
	return func(c app.Call) (app.Answer, error) { return d.Edit(d.t.Context(), c, id, e) }
}

func (d *desk) move(id string, start time.Time) func(app.Call) (app.Answer, error) {
	return func(c app.Call) (app.Answer, error) { return d.Move(d.t.Context(), c, id, start) }
}

func (d *desk) cancel(id string) func(app.Call) (app.Answer, error) {
	return func(c app.Call) (app.Answer, error) { return d.Cancel(d.t.Context(), c, id) }
}

// count runs a query that answers one number, as the administrator.
func (d *desk) count(sql string) int {
	d.t.Helper()
	var n int
	if err := d.db.Admin.QueryRow(d.t.Context(), sql).Scan(&n); err != nil {
		d.t.Fatal(err)
	}
	return n
}

func (d *desk) exec(sql string, args ...any) {
	d.t.Helper()
	if _, err := d.db.Admin.Exec(d.t.Context(), sql, args...); err != nil {
		d.t.Fatal(err)
	}
}
