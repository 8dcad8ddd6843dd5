package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
	"github.com/slotwise/slotwise/testkit/dbtest"
)

// The whole life of a booking, in every way of sending statements that a pooler may need.
func TestB29LifeInEveryExecMode(t *testing.T) {
	t.Parallel()
	for _, mode := range dbtest.ExecModes() {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			db := dbtest.New(t)
			config, err := pgxpool.ParseConfig(db.URL("slotwise_booking"))
			if err != nil {
				t.Fatal(err)
			}
			config.MaxConns, config.ConnConfig.DefaultQueryExecMode = 4, mode
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			lead := 90 * time.Minute
			hall := room("hall", 3)
			hall.ReminderLead = &lead
			life(t, deskOn(t, db, pool, hall))
		})
	}
}

func life(t *testing.T, d *desk) {
	t.Helper()
	o, err := d.try(d.book(request("hall", base, 2)), "key-1")
	if err != nil || o.Refusal != nil {
		t.Fatal(err, o.Refusal)
	}
	b := o.Booking
	if !b.RemindAt.Equal(base.Add(-90*time.Minute)) || b.Version != 1 {
		t.Errorf("booked: %+v", b)
	}
	again, err := d.try(d.book(request("hall", base, 2)), "key-1")
	if err != nil || !reflect.DeepEqual(again.answer, o.answer) {
		t.Errorf("repeated: %+v, %v; first %+v", again.answer, err, o.answer)
	}
	d.must(d.edit(b.ID, booking.Edit{Name: new("Bob"), Address: new("Bob@x.example"), Note: new("x\ny"), Seats: new(3)}))
	d.must(d.edit(b.ID, booking.Edit{Seats: new(1)}))
	moved := d.must(d.move(b.ID, base.Add(30*time.Minute)))
	cancelled := d.must(d.cancel(b.ID))
	view, err := d.Get(t.Context(), b.ID)
	if err != nil || !reflect.DeepEqual(view.Booking, cancelled) || view.Resource.ID != "hall" || len(view.Messages) != 0 {
		t.Errorf("Get = %+v, %v\nwant  %+v", view, err, cancelled)
	}
	if cancelled.Version != 5 || cancelled.StartVersion != 5 || moved.StartVersion != 4 || cancelled.ToldHost != 5 || !cancelled.RemindAt.IsZero() {
		t.Errorf("moved %+v\ncancelled %+v", moved, cancelled)
	}
	if n := d.count(`select count(*) from booking.seats`); n != 0 {
		t.Errorf("%d seats are left", n)
	}
	types := []event.Type{event.Confirmed, event.Changed, event.Changed, event.Rescheduled, event.Cancelled}
	if got := d.events(b.ID); len(got) != len(types) {
		t.Errorf("%d events", len(got))
	} else {
		for i, e := range got {
			if e.Type != types[i] || e.Data.Version != int64(i+1) {
				t.Errorf("event %d: %+v", i, e)
			}
		}
	}
}

// events are those in the outbox about the booking, by row.
func (d *desk) events(id string) []event.Event {
	d.t.Helper()
	rows, _ := d.db.Admin.Query(d.t.Context(), `select payload from booking.outbox_events where key = $1 order by id`, id)
	payloads, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		d.t.Fatal(err)
	}
	all := make([]event.Event, 0, len(payloads))
	for _, p := range payloads {
		e, err := event.Decode(p)
		if err != nil {
			d.t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// What is written for one booking, column by column.
func TestRows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	trace := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	b := d.must(func(c app.Call) (app.Answer, error) {
		c.Trace = trace
		r := request("room", base, 1)
		r.Address = "Ada.L@X.example"
		return d.Book(t.Context(), c, r)
	})
	select {
	case <-d.rings:
	default:
		t.Error("the doorbell did not ring")
	}
	var got struct {
		During            string
		Customer, Address string
		Subject, Message  string
		Headers           map[string]string
		Key, Typed        string
		Payload           []byte
	}
	err := d.db.Admin.QueryRow(t.Context(), `
		select s.during::text, u.address, c.customer::text, c.address, o.subject, o.message_id, o.headers, o.key, o.payload
		from booking.seats s, booking.contacts c, booking.customers u, booking.outbox_events o`).
		Scan(&got.During, &got.Address, &got.Customer, &got.Typed, &got.Subject, &got.Message, &got.Headers, &got.Key, &got.Payload)
	if err != nil {
		t.Fatal(err)
	}
	if got.Address != "ada.l@x.example" || got.Typed != "Ada.L@X.example" || got.Customer != b.Contact.Customer {
		t.Errorf("person: %+v", got)
	}
	if got.Subject != "booking.v1.confirmed.room."+b.ID || got.Message != "booking-"+b.ID+"-v1" || got.Key != b.ID || got.Headers["traceparent"] != trace {
		t.Errorf("outbox: %+v", got)
	}
	e, err := event.Decode(got.Payload)
	if err != nil {
		t.Fatal(err)
	}
	remind := b.RemindAt
	want := event.Data{
		Booking: b.ID, Version: 1, StartVersion: 1, ToldCustomer: 1, ToldHost: 1, Status: "confirmed", Resource: "room",
		Start: base, End: base.Add(time.Hour), Zone: "Europe/Berlin", Seats: 1, Customer: b.Contact.Customer,
		RemindAt: &remind, Changed: []string{"status", "start", "end", "seats"},
	}
	if !reflect.DeepEqual(e.Data, want) || !e.Time.Equal(b.ChangedAt) {
		t.Errorf("event %+v\nwant  %+v", e.Data, want)
	}
}

func TestAChangeOfNothingIsNoVersion(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.must(d.book(request("room", base, 1)))
	<-d.rings
	for _, do := range []func(app.Call) (app.Answer, error){
		d.edit(b.ID, booking.Edit{Name: new("Ada"), Seats: new(1)}), d.edit(b.ID, booking.Edit{}), d.move(b.ID, base),
	} {
		if got := d.must(do); !reflect.DeepEqual(got, b) {
			t.Errorf("changed: %+v", got)
		}
	}
	d.must(d.cancel(b.ID))
	<-d.rings
	if got := d.must(d.cancel(b.ID)); got.Version != 2 {
		t.Errorf("version %d", got.Version)
	}
	select {
	case <-d.rings:
		t.Error("the doorbell rang for nothing")
	default:
	}
	if n := len(d.events(b.ID)); n != 2 {
		t.Errorf("%d events", n)
	}
}

// Issue 3 §4.12, B127: what fails at the very end leaves no booking, seat, person, key or
// outbox row, so nothing is published.
func TestB127RollBackLeavesNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.exec(`create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
		create constraint trigger refuse after insert on booking.outbox_events deferrable initially deferred for each row execute function refuse()`)
	o, err := d.try(d.book(request("room", base, 1)), "key-1")
	if err == nil {
		t.Fatalf("booked: %+v", o)
	}
	for _, table := range []string{"bookings", "seats", "customers", "contacts", "outbox_events", "idempotency_keys"} {
		if n := d.count(`select count(*) from booking.` + table); n != 0 {
			t.Errorf("%d rows in %s", n, table)
		}
	}
	select {
	case <-d.rings:
		t.Error("the doorbell rang")
	default:
	}
	d.exec(`drop trigger refuse on booking.outbox_events`)
	if again, err := d.try(d.book(request("room", base, 1)), "key-1"); err != nil || again.Refusal != nil {
		t.Errorf("the same key again: %v, %v", err, again.Refusal)
	}
}

// B3: the row lock forbids that v2 is written while v1 is not committed, so outbox ids follow
// versions.
func TestB3OutboxIDsFollowVersions(t *testing.T) {
	t.Parallel()
	d := newDesk(t, room("room", 1))
	b := d.must(d.book(request("room", base, 1)))
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if _, err := d.try(d.edit(b.ID, booking.Edit{Note: new(fmt.Sprint(i)), Seats: new(1)})); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	events := d.events(b.ID)
	if len(events) != 41 {
		t.Fatalf("%d events", len(events))
	}
	for i, e := range events {
		if e.Data.Version != int64(i+1) {
			t.Errorf("row %d tells version %d", i, e.Data.Version)
		}
		if i > 0 && e.Time.Before(events[i-1].Time) {
			t.Errorf("version %d is older than its predecessor", e.Data.Version)
		}
	}
}

// A slow transaction that holds the booking: the next one waits, and decides from what the
// slow one left.
func TestB3TheSecondWriterSeesTheFirst(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.must(d.book(request("room", base, 1)))
	slow, err := d.db.Pool("slotwise_booking").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Rollback(t.Context()) //nolint:errcheck // committed below
	for _, sql := range []string{
		`select from booking.bookings where id = $1 for no key update`,
		`update booking.bookings set version = version + 1 where id = $1`,
		`update booking.contacts set note = 'slow' where booking = $1`,
	} {
		if _, err := slow.Exec(t.Context(), sql, b.ID); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan booking.Booking)
	go func() { done <- d.must(d.edit(b.ID, booking.Edit{Name: new("Fast")})) }()
	d.awaitWaiter()
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.Version != 3 || got.Contact.Note != "slow" || got.Contact.Name != "Fast" {
		t.Errorf("after the slow writer: %+v", got)
	}
}

// awaitWaiter returns once somebody waits for a lock in this database.
func (d *desk) awaitWaiter() {
	d.t.Helper()
	d.eventually("somebody waits for a lock", func() bool {
		return d.count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) > 0
	})
}

func (d *desk) eventually(what string, check func() bool) {
	d.t.Helper()
	for end := time.Now().Add(10 * time.Second); !check(); {
		if time.Now().After(end) {
			d.t.Fatalf("not within 10 s: %s", what)
		}
		select {
		case <-d.t.Context().Done():
			d.t.Fatal(d.t.Context().Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Only what may change time, seats or status takes the resource's lock.
func TestANoteDoesNotWaitForTheResource(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.must(d.book(request("room", base, 1)))
	holder, err := d.db.Pool("slotwise_booking").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Rollback(t.Context()) //nolint:errcheck // committed below
	if _, err := holder.Exec(t.Context(), `select from booking.resources where id = 'room' for no key update`); err != nil {
		t.Fatal(err)
	}
	d.must(d.edit(b.ID, booking.Edit{Note: new("x"), Address: new("bob@x.example")}))
	done := make(chan booking.Booking)
	go func() { done <- d.must(d.cancel(b.ID)) }()
	d.awaitWaiter()
	if err := holder.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.Version != 3 {
		t.Errorf("cancelled: %+v", got)
	}
}

// One person, one row, however many bookings are made at once for a new address.
func TestStrangers(t *testing.T) {
	t.Parallel()
	const n = 24
	resources := make([]booking.Resource, 0, n)
	for i := range n {
		resources = append(resources, room(fmt.Sprintf("room-%d", i), 1))
	}
	d := newDesk(t, resources...)
	var all sync.WaitGroup
	for _, r := range resources {
		all.Go(func() {
			if o, err := d.try(d.book(request(r.ID, base, 1))); err != nil || o.Refusal != nil {
				t.Error(err, o.Refusal)
			}
		})
	}
	all.Wait()
	if n := d.count(`select count(*) from booking.customers`); n != 1 {
		t.Errorf("%d customers", n)
	}
	if got := d.count(`select count(*) from booking.contacts`); got != n {
		t.Errorf("%d contacts", got)
	}
}

// Correcting an address points one booking's contact at another customer and changes nothing
// of anybody else's.
func TestCorrectingAnAddress(t *testing.T) {
	t.Parallel()
	d := newDesk(t, room("hall", 9))
	first, second := d.must(d.book(request("hall", base, 1))), d.must(d.book(request("hall", base, 1)))
	corrected := d.must(d.edit(first.ID, booking.Edit{Address: new("bob@x.example")}))
	if first.Contact.Customer != second.Contact.Customer || corrected.Contact.Customer == first.Contact.Customer {
		t.Errorf("customers %s, %s, %s", first.Contact.Customer, second.Contact.Customer, corrected.Contact.Customer)
	}
	back := d.must(d.edit(first.ID, booking.Edit{Address: new("ADA@x.example")}))
	if back.Contact.Customer != second.Contact.Customer || back.Contact.Address != "ADA@x.example" {
		t.Errorf("back: %+v", back.Contact)
	}
	if n := d.count(`select count(*) from booking.customers`); n != 2 {
		t.Errorf("%d customers", n)
	}
}

func TestRefusedAndUnknown(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	nobody := "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"
	if _, err := d.Get(t.Context(), nobody); !errors.Is(err, booking.ErrNotFound) {
		t.Errorf("Get = %v", err)
	}
	for name, do := range map[string]func(app.Call) (app.Answer, error){
		"edit": d.edit(nobody, booking.Edit{Note: new("x")}), "move": d.move(nobody, base), "cancel": d.cancel(nobody),
	} {
		if o, err := d.try(do); err != nil || !errors.Is(o.Refusal, booking.ErrNotFound) {
			t.Errorf("%s: %v, %v", name, err, o.Refusal)
		}
	}
	if o, err := d.try(d.book(request("nowhere", base, 1))); err != nil || !booking.Refused(o.Refusal) {
		t.Errorf("book: %v, %v", err, o.Refusal)
	}
	if o, err := d.try(d.book(request("room", time.Now(), 1))); err != nil || !booking.Refused(o.Refusal) {
		t.Errorf("in the past: %v, %v", err, o.Refusal)
	}
}

// The person was erased: seats and time may still change, the contact can't.
func TestErased(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.must(d.book(request("room", base, 1)))
	d.exec(`delete from booking.contacts`)
	if o, err := d.try(d.edit(b.ID, booking.Edit{Name: new("x")})); err != nil || !errors.Is(o.Refusal, booking.ErrErased) {
		t.Errorf("edit: %v, %v", err, o.Refusal)
	}
	d.must(d.move(b.ID, base.Add(time.Hour)))
	d.must(d.cancel(b.ID))
	if e := d.events(b.ID)[2]; e.Data.Customer != "" {
		t.Errorf("the event names a customer: %+v", e)
	}
}

// A customer may change what is hers, as long as it is; the question is asked under the
// booking's lock.
func TestWhoCallsAsCustomer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.must(d.book(request("room", base, 1)))
	below := int64(3)
	as := func(customer string, do func(app.Call) (app.Answer, error)) error {
		o, err := d.try(func(c app.Call) (app.Answer, error) {
			c.Customer, c.Match = customer, func(version int64) bool { return version < below }
			return do(c)
		})
		return errors.Join(err, o.Refusal)
	}
	ada := b.Contact.Customer
	if err := as(ada, d.move(b.ID, base.Add(time.Hour))); err != nil {
		t.Error(err)
	}
	corrected := d.must(d.edit(b.ID, booking.Edit{Address: new("bob@x.example")}))
	for who, customer := range map[string]string{"who was": ada, "a stranger": b.ID} {
		for what, do := range map[string]func(app.Call) (app.Answer, error){"move": d.move(b.ID, base), "cancel": d.cancel(b.ID)} {
			if err := as(customer, do); !errors.Is(err, booking.ErrNotFound) {
				t.Errorf("%s may %s: %v", who, what, err)
			}
		}
		if view, err := d.GetFor(t.Context(), customer, b.ID); !errors.Is(err, booking.ErrNotFound) || view.Booking.ID != "" {
			t.Errorf("%s sees %+v, %v", who, view, err)
		}
	}
	bob := corrected.Contact.Customer
	if err := as(bob, d.cancel(b.ID)); !errors.Is(err, booking.ErrVersion) {
		t.Errorf("a stale page: %v", err)
	}
	view, err := d.GetFor(t.Context(), bob, b.ID)
	d.exec(`update booking.bookings set starts_at = now() - interval '1 hour', ends_at = now(), remind_at = null`)
	below = 99
	for what, do := range map[string]func(app.Call) (app.Answer, error){"move": d.move(b.ID, base), "cancel": d.cancel(b.ID)} {
		if err := as(bob, do); !errors.Is(err, booking.ErrOver) {
			t.Errorf("%s after the end: %v", what, err)
		}
	}
	d.must(d.edit(b.ID, booking.Edit{Note: new("operators still may")}))
	if err != nil || !reflect.DeepEqual(view.Booking, corrected) || view.Resource.HostAddress != "" || view.Messages != nil {
		t.Errorf("bob sees %+v, %v", view, err)
	}
	d.exec(`delete from booking.contacts`) // erased
	for _, customer := range []string{bob, ada} {
		if err := as(customer, d.cancel(b.ID)); !errors.Is(err, booking.ErrNotFound) {
			t.Errorf("after the erasure: %v", err)
		}
	}
}
