// Package seed writes bookings straight into a test's database, each change with its outbox
// row, as the booking service would have written them:
//
//	db := dbtest.New(t)
//	bookings := seed.New(t, db.Admin)
//	bookings.Resource(seed.Resource{ID: "room-7", Host: "host@rooms.example"})
//	b := bookings.Book(seed.Booking{Resource: "room-7"}) // v1, confirmed
//	b = bookings.Move(b, b.Start.Add(time.Hour))          // v2
//
// It is for tests of who reads bookings. It takes no seats and knows no rule of the booking
// service but how the facts follow from a change (design §3).
package seed

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/pkg/event"
)

// Seed writes to one database.
type Seed struct {
	tb        testing.TB
	pool      *pgxpool.Pool
	resources map[string]Resource
}

// New returns a seed for pool, which is the administrator's. What fails ends tb.
func New(tb testing.TB, pool *pgxpool.Pool) *Seed {
	tb.Helper()
	return &Seed{tb: tb, pool: pool, resources: map[string]Resource{}}
}

// Resource is what can be booked.
type Resource struct {
	ID   string
	Name string // by default "Room " and the id
	Zone string // by default Europe/Berlin
	Host string // address; empty: no host
}

// Booking is a booking as it stands, and its contact. Book fills what is empty.
type Booking struct {
	ID       string
	Resource string
	Customer string // by default a new one
	Name     string // by default Ada Lovelace
	Address  string // by default one of this booking only
	Note     string
	Start    time.Time     // by default in 48 h, at a full hour
	Length   time.Duration // by default an hour
	Lead     time.Duration // of the reminder; 0: none is owed
	Seats    int           // by default 1

	// Age shifts the change into the past: its event and its outbox row are that old.
	Age time.Duration

	Status       event.Status
	Version      int64
	StartVersion int64
	ToldCustomer int64
	ToldHost     int64
	RemindAt     *time.Time
	Event        event.Event // that told the last change
}

// Resource writes r.
func (s *Seed) Resource(r Resource) {
	s.tb.Helper()
	r.Name, r.Zone = cmp.Or(r.Name, "Room "+r.ID), cmp.Or(r.Zone, "Europe/Berlin")
	s.resources[r.ID] = r
	batch := &pgx.Batch{}
	batch.Queue(`
		insert into booking.resources (id, name, zone, capacity, slot_minutes, host_address)
		values ($1, $2, $3, 10000, 60, nullif($4, ''))`, r.ID, r.Name, r.Zone, r.Host)
	s.send(batch, "resource "+r.ID)
}

// change is what one version changes, and whom it owes a mail.
type change struct {
	typ            event.Type
	fields         []string
	start          bool // time or status: another reminder is owed
	customer, host bool
}

// Book writes b as version 1, confirmed, and returns it complete.
func (s *Seed) Book(b Booking) Booking {
	s.tb.Helper()
	b.ID, b.Customer = cmp.Or(b.ID, uuid()), cmp.Or(b.Customer, uuid())
	b.Name, b.Address = cmp.Or(b.Name, "Ada Lovelace"), cmp.Or(b.Address, "ada-"+b.ID+"@customers.example")
	b.Length, b.Seats = cmp.Or(b.Length, time.Hour), cmp.Or(b.Seats, 1)
	if b.Start.IsZero() {
		b.Start = time.Now().Add(48 * time.Hour).Truncate(time.Hour)
	}
	b.Status = event.StatusConfirmed
	return s.next(b, change{event.Confirmed, []string{"start", "end", "seats", "status", "contact"}, true, true, true})
}

// Move gives b another start.
func (s *Seed) Move(b Booking, start time.Time) Booking {
	s.tb.Helper()
	b.Start = start
	return s.next(b, change{event.Rescheduled, []string{"start", "end"}, true, true, true})
}

// Cancel ends b.
func (s *Seed) Cancel(b Booking) Booking {
	s.tb.Helper()
	b.Status = event.StatusCancelled
	return s.next(b, change{event.Cancelled, []string{"status"}, true, true, true})
}

// Reseat gives b another number of seats.
func (s *Seed) Reseat(b Booking, seats int) Booking {
	s.tb.Helper()
	b.Seats = seats
	return s.next(b, change{event.Changed, []string{"seats"}, false, true, true})
}

// Readdress corrects the customer's address.
func (s *Seed) Readdress(b Booking, address string) Booking {
	s.tb.Helper()
	b.Address, b.Customer = address, uuid()
	return s.next(b, change{event.Changed, []string{"address"}, false, true, false})
}

// Annotate changes the note, which owes nobody a mail.
func (s *Seed) Annotate(b Booking, note string) Booking {
	s.tb.Helper()
	b.Note = note
	return s.next(b, change{event.Changed, []string{"note"}, false, false, false})
}

// Erase removes the person.
func (s *Seed) Erase(b Booking) Booking {
	s.tb.Helper()
	b = s.next(b, change{event.Erased, []string{"contact"}, false, false, false})
	batch := &pgx.Batch{}
	batch.Queue(`delete from booking.contacts where booking = $1`, b.ID)
	s.send(batch, "erase booking "+b.ID)
	return b
}

// next writes the version of b that c makes.
func (s *Seed) next(b Booking, c change) Booking {
	s.tb.Helper()
	resource, known := s.resources[b.Resource]
	if !known {
		s.tb.Fatalf("seed: resource %q was not written", b.Resource)
	}
	b.Version++
	if c.start {
		b.StartVersion, b.RemindAt = b.Version, nil
	}
	if remind := b.Start.Add(-b.Lead); c.start && b.Lead > 0 && b.Status == event.StatusConfirmed {
		b.RemindAt = &remind
	}
	if c.customer {
		b.ToldCustomer = b.Version
	}
	if c.host && resource.Host != "" {
		b.ToldHost = b.Version
	}
	b.Event = event.New(c.typ, time.Now().Add(-b.Age), event.Data{
		Booking: b.ID, Version: b.Version, StartVersion: b.StartVersion, ToldCustomer: b.ToldCustomer, ToldHost: b.ToldHost,
		Status: b.Status, Resource: b.Resource, Start: b.Start, End: b.Start.Add(b.Length), Zone: resource.Zone, Seats: b.Seats,
		Customer: b.Customer, RemindAt: b.RemindAt, Changed: c.fields,
	})
	s.write(b)
	return b
}

func (s *Seed) write(b Booking) {
	s.tb.Helper()
	body, err := b.Event.Encode()
	if err != nil {
		s.tb.Fatalf("seed: %v", err)
	}
	at := b.Event.Time
	batch := &pgx.Batch{}
	batch.Queue(`insert into booking.customers (id, address) values ($1, $2) on conflict do nothing`, b.Customer, strings.ToLower(b.Address))
	batch.Queue(`
		insert into booking.bookings (id, resource, status, starts_at, ends_at, seats, version, start_version, remind_at, told_customer, told_host, created_at, changed_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12)
		on conflict (id) do update
		set status = excluded.status, starts_at = excluded.starts_at, ends_at = excluded.ends_at, seats = excluded.seats, version = excluded.version,
		    start_version = excluded.start_version, remind_at = excluded.remind_at, told_customer = excluded.told_customer,
		    told_host = excluded.told_host, changed_at = excluded.changed_at`,
		b.ID, b.Resource, b.Status, b.Start, b.Start.Add(b.Length), b.Seats, b.Version, b.StartVersion, b.RemindAt, b.ToldCustomer, b.ToldHost, at)
	batch.Queue(`
		insert into booking.contacts (booking, customer, name, address, locale, note)
		values ($1, $2, $3, $4, 'en', $5)
		on conflict (booking) do update
		set customer = excluded.customer, name = excluded.name, address = excluded.address, note = excluded.note`,
		b.ID, b.Customer, b.Name, b.Address, b.Note)
	batch.Queue(`
		insert into booking.outbox_events (key, subject, message_id, payload, created_at)
		values ($1, $2, $3, $4, $5)`, b.ID, b.Event.NATSSubject(), b.Event.ID, body, at)
	s.send(batch, "version of booking "+b.ID)
}

// send runs batch, which is one transaction.
func (s *Seed) send(batch *pgx.Batch, what string) {
	s.tb.Helper()
	if err := s.pool.SendBatch(s.tb.Context(), batch).Close(); err != nil {
		s.tb.Fatalf("seed: %s: %v", what, err)
	}
}

func uuid() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // RFC 9562 §5.4
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
