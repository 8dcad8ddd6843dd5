package store_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
	"github.com/slotwise/slotwise/testkit/dbtest"
)

// tooMany returns how long a change that owed one mail too many has to wait.
func tooMany(err error) (wait time.Duration, refused bool) {
	if e, ok := errors.AsType[*app.TooManyMailsError](err); ok {
		return e.Wait, true
	}
	return 0, false
}

// A hundred bookings at once for one address, which somebody has or nobody has yet: exactly as
// many as may owe a mail, and nothing is left of the others.
func TestMailsOfOneAddressHaveALimit(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"a stranger": false, "a known customer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, room("hall", 200))
			first := 0
			if known {
				d.must(d.book(request("hall", base, 1)))
				d.exec(`update booking.customers set mails_owed = '{}'`)
				first = 1
			}
			d.Mails = 20
			var passed, refused atomic.Int32
			var all sync.WaitGroup
			for i := range 100 {
				all.Go(func() {
					r := request("hall", base.Add(time.Duration(i)*time.Minute), 1)
					if i%2 == 0 {
						r.Address = "ADA@x.example"
					}
					_, err := d.try(d.book(r), fmt.Sprint("key-", i))
					wait, many := tooMany(err)
					switch {
					case err == nil:
						passed.Add(1)
					case many && wait > 59*time.Minute && wait <= time.Hour:
						refused.Add(1)
					default:
						t.Errorf("booking %d: %v", i, err)
					}
				})
			}
			all.Wait()
			if passed.Load() != 20 || refused.Load() != 80 {
				t.Errorf("%d passed, %d were refused", passed.Load(), refused.Load())
			}
			for _, table := range []string{"bookings", "contacts", "outbox_events", "seats"} {
				if n := d.count(`select count(*) from booking.` + table); n != 20+first {
					t.Errorf("%d rows in %s", n, table)
				}
			}
			if n := d.count(`select count(*) from booking.idempotency_keys`); n != 20 {
				t.Errorf("%d answers are kept: a refusal that says when to come back must not be", n)
			}
		})
	}
}

// Every change that owes the customer a mail counts, and is refused when it is one too many; one
// that owes none does not; cancelling is never refused. Another address has a count of its own.
func TestWhatCountsAsAMail(t *testing.T) {
	t.Parallel()
	d := newDesk(t, room("hall", 9))
	d.Mails = 3
	b := d.must(d.book(request("hall", base, 1)))
	d.must(d.move(b.ID, base.Add(time.Hour)))
	d.must(d.edit(b.ID, booking.Edit{Note: new("a note"), Name: new("Bob"), Locale: new("de")}))
	d.must(d.move(b.ID, base.Add(time.Hour))) // moves nothing
	d.must(d.edit(b.ID, booking.Edit{Seats: new(2)}))
	other := d.must(d.book(requestOf("bob@x.example", base)))

	for name, do := range map[string]func(app.Call) (app.Answer, error){
		"another booking":         d.book(request("hall", base, 1)),
		"a move":                  d.move(b.ID, base.Add(2*time.Hour)),
		"other seats":             d.edit(b.ID, booking.Edit{Seats: new(1)}),
		"the same address, typed": d.edit(b.ID, booking.Edit{Address: new("Ada@x.example")}),
		"a correction to it":      d.edit(other.ID, booking.Edit{Address: new("ada@x.example")}),
	} {
		if wait, refused := tooMany(second(d.try(do))); !refused || wait <= 59*time.Minute || wait > time.Hour {
			t.Errorf("%s: refused %t, to wait %s", name, refused, wait)
		}
	}
	d.must(d.edit(b.ID, booking.Edit{Note: new("another")}))
	d.must(d.edit(b.ID, booking.Edit{Address: new("carol@x.example")})) // the new one's first
	if n := d.count(`select cardinality(mails_owed) from booking.customers where address = 'carol@x.example'`); n != 1 {
		t.Errorf("carol is owed %d", n)
	}
	d.must(d.edit(b.ID, booking.Edit{Address: new("dave@x.example")}))
	d.exec(`update booking.customers set mails_owed = array[now(), now(), now()]`)
	d.must(d.cancel(b.ID))
	if n := d.count(`select cardinality(mails_owed) from booking.customers where address = 'dave@x.example'`); n != 3 {
		t.Errorf("%d times are kept, want no more than the limit", n)
	}
}

func requestOf(address string, start time.Time) booking.Request {
	r := request("hall", start, 1)
	r.Address = address
	return r
}

func second(_ outcome, err error) error { return err }

// The hour is any hour, not that of a clock: what is older makes room, one by one.
func TestAnHourIsAnyHour(t *testing.T) {
	t.Parallel()
	d := newDesk(t, room("hall", 99))
	d.Mails = 3
	d.must(d.book(request("hall", base, 1)))
	owed := func(minutes ...int) {
		d.exec(`update booking.customers set mails_owed = array(select clock_timestamp() - m * interval '1 minute' from unnest($1::int[]) m)`, minutes)
	}
	for name, tt := range map[string]struct {
		minutes []int // since mails were owed, the oldest first
		wait    time.Duration
	}{
		"none":                            {nil, 0},
		"two":                             {[]int{1, 1}, 0},
		"three, the first an hour ago":    {[]int{60, 59, 1}, 0},
		"three, the first almost":         {[]int{58, 57, 1}, 2 * time.Minute},
		"many, of which one is recent":    {[]int{300, 200, 150, 100, 1}, 0},
		"many, kept under a higher limit": {[]int{50, 40, 30, 20, 10}, 30 * time.Minute},
	} {
		owed(tt.minutes...)
		_, err := d.try(d.book(request("hall", base, 1)))
		wait, refused := tooMany(err)
		if refused != (tt.wait > 0) || err != nil && !refused || wait > tt.wait || wait < tt.wait-2*time.Second {
			t.Errorf("%s: %v, want to wait %s", name, err, tt.wait)
		}
		if !refused {
			if n := d.count(`select cardinality(mails_owed) from booking.customers`); n > 3 {
				t.Errorf("%s: %d times are kept", name, n)
			}
		}
	}
	owed(2, 1, 0)
	d.Mails = 0
	d.must(d.book(request("hall", base, 1)))
}

// It is judged under the customer's lock, in every way of sending statements, also where nothing
// told before: a move does not know the customer beforehand.
func TestB29MailsInEveryExecMode(t *testing.T) {
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
			d := deskOn(t, db, pool, room("hall", 9))
			d.Mails = 2
			b := d.must(d.book(request("hall", base, 1)))
			c := d.must(d.book(request("hall", base, 1)))
			if _, refused := tooMany(second(d.try(d.move(b.ID, base.Add(time.Hour)), "key"))); !refused {
				t.Error("a third mail was owed")
			}
			d.must(d.cancel(b.ID))
			d.must(d.cancel(c.ID))
			if _, refused := tooMany(second(d.try(d.book(request("hall", base, 1))))); !refused {
				t.Error("cancelling has made room")
			}
		})
	}
}
