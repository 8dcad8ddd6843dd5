package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/store"
	"github.com/slotwise/slotwise/testkit/dbtest"
)

// What PostgreSQL can't do now is no fault of the request and is told as such; a mistake of
// ours is not hidden behind it.
func TestAway(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.must(d.book(request("room", base.AddDate(0, 0, 1), 1)))
	d.exec(`create function fail() returns trigger language plpgsql as $$ begin raise exception 'no' using errcode = tg_argv[0]; end $$`)
	for code, away := range map[string]bool{
		"53100": true, // disk full
		"53200": true, "53300": true, "57P01": true, "57P03": true, "57014": true, "58030": true, "08006": true,
		"55P03": true,                // lock timeout
		"25006": true,                // a standby
		"40001": true, "40P01": true, // still lost after three tries
		"23514": false, "42P01": false, "22001": false, "P0001": false,
	} {
		d.exec(fmt.Sprintf(`create trigger fail before insert on booking.outbox_events for each row execute function fail('%s')`, code))
		_, err := d.try(d.book(request("room", base, 1)), "key-1")
		if errors.Is(err, app.ErrAway) != away || err == nil {
			t.Errorf("%s: %v", code, err)
		}
		d.exec(`drop trigger fail on booking.outbox_events`)
	}
	if n := d.count(`select count(*) from booking.bookings`); n != 1 {
		t.Errorf("%d bookings", n)
	}

	// The connection ends under a transaction that waits.
	holder, err := d.db.Admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // only locks
	if _, err := holder.Exec(t.Context(), `select from booking.bookings for update`); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() {
		_, err := d.try(d.cancel(b.ID))
		failed <- err
	}()
	d.awaitWaiter()
	d.exec(`select pg_terminate_backend(pid) from pg_stat_activity where usename = 'slotwise_booking' and wait_event_type = 'Lock' and datname = current_database()`)
	if err := <-failed; !errors.Is(err, app.ErrAway) {
		t.Errorf("terminated: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.Cancel(short, call(&outcome{}), b.ID); !errors.Is(err, app.ErrAway) {
		t.Errorf("too slow: %v", err)
	}
}

// Nobody listens there; and it is another server, without this database.
func TestAwayAltogether(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	for name, url := range map[string]string{
		"nobody":      "postgres://slotwise_booking:x@127.0.0.1:1/slotwise?sslmode=disable",
		"no database": strings.Replace(db.URL("slotwise_booking"), db.Name, "nowhere", 1),
	} {
		pool, err := pgxpool.New(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		s, err := store.New(pool)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"); !errors.Is(err, app.ErrAway) {
			t.Errorf("%s: Get = %v", name, err)
		}
		if _, err := s.Resources(t.Context()); !errors.Is(err, app.ErrAway) {
			t.Errorf("%s: Resources = %v", name, err)
		}
	}
}
