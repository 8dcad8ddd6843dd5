package booking_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

const (
	id  = "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"
	ada = "01928c7e-0000-7000-8000-000000000001"
	bob = "01928c7e-0000-7000-8000-000000000002"
)

var now = time.Date(2030, 3, 1, 9, 0, 0, 0, time.UTC)

func terms(change ...func(*booking.Terms)) booking.Terms {
	t := booking.Terms{
		Resource: booking.Resource{ID: "room-7", Name: "Room 7", Zone: "Europe/Berlin", Capacity: 4, SlotMinutes: 60, HostAddress: "host@x.example"},
		Lead:     24 * time.Hour,
		Now:      now,
	}
	for _, f := range change {
		f(&t)
	}
	return t
}

func request() booking.Request {
	return booking.Request{Resource: "room-7", Start: now.Add(72 * time.Hour), Seats: 2, Name: "Ada", Address: "ada@x.example", Locale: "en", Note: "window"}
}

func booked(t *testing.T) booking.Booking {
	t.Helper()
	c, err := booking.Book(id, ada, request(), terms())
	if err != nil {
		t.Fatal(err)
	}
	return c.After
}

// Each row of the table of what a change owes: who is told, whether the start was set.
func TestChanges(t *testing.T) {
	later := terms(func(t *booking.Terms) { t.Now = now.Add(time.Hour) })
	edit := func(e booking.Edit) func(booking.Booking) (booking.Change, error) {
		return func(b booking.Booking) (booking.Change, error) { return b.Edit(e, bob, later) }
	}
	cancel := func(b booking.Booking) (booking.Change, error) { return b.Cancel(later), nil }
	tests := map[string]struct {
		step           func(booking.Booking) (booking.Change, error)
		cancelled      bool // before the step
		kind           booking.Kind
		fields         []string
		setsStart      bool
		customer, host bool
	}{
		"move": {
			step: func(b booking.Booking) (booking.Change, error) { return b.Move(b.Start.Add(time.Minute), later) },
			kind: booking.KindRescheduled, fields: []string{"start", "end"}, setsStart: true, customer: true, host: true,
		},
		"move to the same start": {step: func(b booking.Booking) (booking.Change, error) { return b.Move(b.Start, later) }},
		"cancel":                 {step: cancel, kind: booking.KindCancelled, fields: []string{"status"}, setsStart: true, customer: true, host: true},
		"cancel again":           {step: cancel, cancelled: true},
		"seats":                  {step: edit(booking.Edit{Seats: new(3)}), kind: booking.KindChanged, fields: []string{"seats"}, customer: true, host: true},
		"same seats":             {step: edit(booking.Edit{Seats: new(2)})},
		"address":                {step: edit(booking.Edit{Address: new("bob@x.example")}), kind: booking.KindChanged, fields: []string{"address"}, customer: true},
		"address of a cancelled booking": {
			step: edit(booking.Edit{Address: new("bob@x.example")}), cancelled: true,
			kind: booking.KindChanged, fields: []string{"address"}, customer: true,
		},
		"note, locale, name": {
			step: edit(booking.Edit{Note: new("door"), Locale: new("de"), Name: new("Bob")}),
			kind: booking.KindChanged, fields: []string{"name", "locale", "note"},
		},
		"seats and address": {
			step: edit(booking.Edit{Seats: new(1), Address: new("bob@x.example")}),
			kind: booking.KindChanged, fields: []string{"seats", "address"}, customer: true, host: true,
		},
		"everything as it is": {step: edit(booking.Edit{Seats: new(2), Name: new(" Ada "), Address: new("ada@x.example"), Locale: new("en"), Note: new("window\r\n")})},
		"nothing":             {step: edit(booking.Edit{})},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := booked(t)
			if tt.cancelled {
				before = before.Cancel(terms()).After
			}
			c, err := tt.step(before)
			if err != nil {
				t.Fatal(err)
			}
			if tt.fields == nil {
				if !c.None() || c.Owes() || !reflect.DeepEqual(c.After, before) {
					t.Errorf("changed %v of %+v", c.Fields, c.After)
				}
				return
			}
			if c.Kind != tt.kind || !slices.Equal(c.Fields, tt.fields) {
				t.Errorf("kind %q, fields %v", c.Kind, c.Fields)
			}
			after := c.After
			if after.Version != before.Version+1 || !after.ChangedAt.Equal(later.Now) || !after.CreatedAt.Equal(before.CreatedAt) {
				t.Errorf("version %d at %v", after.Version, after.ChangedAt)
			}
			check := func(what string, got, was int64, set bool) {
				want := was
				if set {
					want = after.Version
				}
				if got != want {
					t.Errorf("%s = %d, want %d", what, got, want)
				}
			}
			check("start_version", after.StartVersion, before.StartVersion, tt.setsStart)
			check("told_customer", after.ToldCustomer, before.ToldCustomer, tt.customer)
			if c.Owes() != tt.customer {
				t.Errorf("owes the customer a mail: %t", c.Owes())
			}
			check("told_host", after.ToldHost, before.ToldHost, tt.host)
		})
	}
}

func TestBook(t *testing.T) {
	got := booked(t)
	want := booking.Booking{
		ID: id, Resource: "room-7", Status: booking.Confirmed, Seats: 2,
		Start: now.Add(72 * time.Hour), End: now.Add(73 * time.Hour), RemindAt: now.Add(48 * time.Hour),
		Version: 1, StartVersion: 1, ToldCustomer: 1, ToldHost: 1, CreatedAt: now, ChangedAt: now,
		Contact: booking.Contact{Customer: ada, Name: "Ada", Address: "ada@x.example", Locale: "en", Note: "window"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Book = %+v\nwant   %+v", got, want)
	}
}

func TestNobodyTellsAHostWhoIsNotThere(t *testing.T) {
	alone := terms(func(t *booking.Terms) { t.Resource.HostAddress = "" })
	c, err := booking.Book(id, ada, request(), alone)
	if err != nil || c.After.ToldHost != 0 {
		t.Errorf("told_host = %d, %v", c.After.ToldHost, err)
	}
}

// B99, B102: a reminder is owed at start - lead, when that lies at least a minute ahead.
func TestB102RemindAt(t *testing.T) {
	lead := func(d time.Duration) func(*booking.Terms) {
		return func(t *booking.Terms) { t.Resource.ReminderLead = &d }
	}
	tests := map[string]struct {
		ahead, remind time.Duration
		terms         booking.Terms
	}{
		"the service's lead":      {48 * time.Hour, 24 * time.Hour, terms()},
		"just far enough":         {24*time.Hour + time.Minute, time.Minute, terms()},
		"less than a minute left": {24*time.Hour + 59*time.Second, 0, terms()},
		"too late for it":         {3 * time.Hour, 0, terms()},
		"the resource's lead":     {3 * time.Hour, 2 * time.Hour, terms(lead(time.Hour))},
		"the resource wants none": {48 * time.Hour, 0, terms(lead(0))},
		"the service wants none":  {48 * time.Hour, 0, terms(func(t *booking.Terms) { t.Lead = 0 })},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := request()
			r.Start = now.Add(tt.ahead)
			c, err := booking.Book(id, ada, r, tt.terms)
			if err != nil {
				t.Fatal(err)
			}
			want := time.Time{}
			if tt.remind > 0 {
				want = now.Add(tt.remind)
			}
			if !c.After.RemindAt.Equal(want) {
				t.Errorf("remind_at = %v, want %v", c.After.RemindAt, want)
			}
			moved, err := booked(t).Move(r.Start, tt.terms)
			if err != nil || !moved.After.RemindAt.Equal(want) {
				t.Errorf("after a move remind_at = %v, want %v (%v)", moved.After.RemindAt, want, err)
			}
		})
	}
}

func TestRemindAtIsNotTouchedByWhatDoesNotMoveTheStart(t *testing.T) {
	b := booked(t)
	short := terms(func(t *booking.Terms) { t.Lead = time.Hour })
	c, err := b.Edit(booking.Edit{Seats: new(1), Note: new("x")}, ada, short)
	if err != nil || !c.After.RemindAt.Equal(b.RemindAt) {
		t.Errorf("remind_at = %v, want %v (%v)", c.After.RemindAt, b.RemindAt, err)
	}
	if !b.Cancel(terms()).After.RemindAt.IsZero() {
		t.Error("a cancelled booking owes a reminder")
	}
}

func TestAMoveKeepsTheLength(t *testing.T) {
	b := booked(t)
	long := terms(func(t *booking.Terms) { t.Resource.SlotMinutes = 240 })
	c, err := b.Move(b.Start.Add(24*time.Hour+300*time.Millisecond), long)
	if err != nil || !c.After.End.Equal(b.End.Add(24*time.Hour)) {
		t.Errorf("end = %v, %v", c.After.End, err)
	}
}

func TestAnotherPerson(t *testing.T) {
	c, err := booked(t).Edit(booking.Edit{Address: new("bob@x.example")}, bob, terms())
	if err != nil || c.After.Contact.Customer != bob {
		t.Errorf("customer = %s, %v", c.After.Contact.Customer, err)
	}
	c, err = booked(t).Edit(booking.Edit{Name: new("Ada L.")}, bob, terms())
	if err != nil || c.After.Contact.Customer != ada {
		t.Errorf("customer = %s, %v", c.After.Contact.Customer, err)
	}
}

func TestRefusals(t *testing.T) {
	cancelled := booked(t).Cancel(terms()).After
	erased := booked(t)
	erased.Contact = booking.Contact{}
	tests := map[string]struct {
		err  error
		want error
	}{
		"move cancelled":      {second(cancelled.Move(cancelled.Start.Add(time.Hour), terms())), booking.ErrCancelled},
		"seats of cancelled":  {second(cancelled.Edit(booking.Edit{Seats: new(1)}, ada, terms())), booking.ErrCancelled},
		"contact of nobody":   {second(erased.Edit(booking.Edit{Name: new("X")}, ada, terms())), booking.ErrErased},
		"seats without owner": {second(erased.Edit(booking.Edit{Seats: new(1)}, ada, terms())), nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if !errors.Is(tt.err, tt.want) || tt.want != nil && !booking.Refused(tt.err) {
				t.Errorf("got %v, want %v", tt.err, tt.want)
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

func TestInvalid(t *testing.T) {
	book := func(change func(*booking.Request, *booking.Terms)) error {
		r, tt := request(), terms()
		change(&r, &tt)
		_, err := booking.Book(id, ada, r, tt)
		return err
	}
	tests := map[string]struct {
		err    error
		fields []string
	}{
		"everything": {book(func(r *booking.Request, t *booking.Terms) {
			*r = booking.Request{Resource: "A.b", Start: now.Add(-time.Hour), Name: "\u200b", Address: "x", Locale: "de_DE", Note: "\x00"}
		}), []string{"resource", "seats", "name", "address", "locale", "note", "start"}},
		"no resource":                {book(func(_ *booking.Request, t *booking.Terms) { t.Resource = booking.Resource{} }), []string{"resource"}},
		"retired":                    {book(func(_ *booking.Request, t *booking.Terms) { t.Resource.Retired = true }), []string{"resource"}},
		"now":                        {book(func(r *booking.Request, _ *booking.Terms) { r.Start = now }), []string{"start"}},
		"no start":                   {book(func(r *booking.Request, _ *booking.Terms) { r.Start = time.Time{} }), []string{"start"}},
		"year 9999":                  {book(func(r *booking.Request, _ *booking.Terms) { r.Start = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }), []string{"start"}},
		"more seats than there are":  {book(func(r *booking.Request, _ *booking.Terms) { r.Seats = 5 }), []string{"seats"}},
		"B61 name with a line break": {book(func(r *booking.Request, _ *booking.Terms) { r.Name = "A\nBcc: x@evil.example" }), []string{"name"}},
		"name that turns the text":   {book(func(r *booking.Request, _ *booking.Terms) { r.Name = "A\u202eB" }), []string{"name"}},
		"long name and note": {book(func(r *booking.Request, _ *booking.Terms) {
			r.Name, r.Note = strings.Repeat("ü", 201), strings.Repeat("ü", 2001)
		}), []string{"name", "note"}},
		"move into the past": {second(booked(t).Move(now.Add(-time.Hour), terms())), []string{"start"}},
		"edit": {second(booked(t).Edit(booking.Edit{
			Seats: new(0), Name: new("a\rb"), Address: new("b"), Locale: new("-"), Note: new("\x1b"),
		}, ada, terms())), []string{"seats", "name", "address", "locale", "note"}},
		"edit to more seats than there are": {second(booked(t).Edit(booking.Edit{Seats: new(5)}, ada, terms())), []string{"seats"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			invalid, ok := errors.AsType[*booking.InvalidError](tt.err)
			if !ok || !booking.Refused(tt.err) {
				t.Fatalf("got %v", tt.err)
			}
			var fields []string
			for _, f := range invalid.Faults {
				fields = append(fields, f.Field)
			}
			if !slices.Equal(fields, tt.fields) {
				t.Errorf("faults %v, want of %v", invalid.Faults, tt.fields)
			}
		})
	}
}

func TestGoodText(t *testing.T) {
	for _, name := range []string{"Zoë", "李小龍", "O'Neil, Jr.", "👩‍👩‍👧", "</p><b>x</b>", "عبد\u200fالله"} {
		r := request()
		r.Name, r.Note = name, "one\n\ttwo\r\n"+name
		c, err := booking.Book(id, ada, r, terms())
		if err != nil || c.After.Contact.Name != name || c.After.Contact.Note != "one\n\ttwo\n"+name {
			t.Errorf("%q: %+v, %v", name, c.After.Contact, err)
		}
	}
}

func TestResourceCheck(t *testing.T) {
	good := terms().Resource
	if faults := good.Check(); faults != nil {
		t.Errorf("a good resource: %v", faults)
	}
	bad := booking.Resource{ID: "Room", Name: "a\nb", Zone: "Mars/Base", ReminderLead: new(-time.Second), HostAddress: "x"}
	want := []string{"id", "name", "zone", "capacity", "slot_minutes", "reminder_lead", "host_address"}
	var got []string
	for _, f := range bad.Check() {
		got = append(got, f.Field)
	}
	if !slices.Equal(got, want) {
		t.Errorf("faults of %v, want %v", got, want)
	}
	for _, zone := range []string{"", "Local", "localtime", "../etc/passwd", "posix/Europe/Berlin", "europe/berlin"} {
		r := good
		r.Zone = zone
		if len(r.Check()) != 1 {
			t.Errorf("zone %q is taken", zone)
		}
	}
}
