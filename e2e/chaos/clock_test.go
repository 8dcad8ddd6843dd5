package chaos

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/seed"
)

// The database's clock is an hour ahead of all others', or behind. Mails go out at once, a
// frozen sender is taken over after its lease and no sooner, and a reminder comes at its time
// by the database's clock, give or take what the audit needs where NATS's clock is of no use.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := dbtest.New(t)
			skewClock(t, db, skew)
			h := openOn(t, db, []string{"booking", "relay", "scheduler"}, func(c *stack.Config) {
				c.Env["SLOTWISE_TIMES"] = shortTimes + ",missed=2s"
			})
			const lease = 2 * time.Second // of shortTimes

			at, reminder := h.remind(skew, 6*time.Second)
			name, frozen := h.start("notifier", "SLOTWISE_FAILPOINTS=sender.dotted=stop")
			marks := h.marks()
			answered := h.load(2)
			h.awaitHit(name, frozen, "sender.dotted", "stop")
			began := time.Now()
			h.start("notifier")
			answered()
			h.Eventually(lease+10*time.Second, "another notifier takes over", func(ctx context.Context) error { return h.marked(ctx, marks) })
			if took := time.Since(began); took < lease/2 {
				t.Errorf("taken over after %s, want the lease of %s", took, lease)
			}
			h.thaw(frozen)

			var early float64
			h.Eventually(at.Sub(h.now(skew))+15*time.Second, "the reminder is sent", func(ctx context.Context) error {
				return db.Admin.QueryRow(ctx, `
					select extract(epoch from $2 - accepted_at) from notifier.send_log where key = $1 and state = 'sent'`, reminder, at).Scan(&early)
			})
			t.Logf("the reminder came %.1f s after its time", -early)
			if early > 0 {
				t.Errorf("the reminder came %.1f s before its time by the database's clock", early)
			}
			h.settle(30 * time.Second)
			if count := h.keepsThePromise(); count.marks == 0 {
				t.Error("no mark")
			}
		})
	}
}

// skewClock lets the database tell services a time that differs from the machine's: functions
// of theirs come before PostgreSQL's own on the roles' search path, and in columns' defaults.
func skewClock(t *testing.T, db *dbtest.DB, by time.Duration) {
	t.Helper()
	_, err := db.Admin.Exec(t.Context(), fmt.Sprintf(`
		create schema skew;
		grant usage on schema skew to public;
		create function skew.now() returns timestamptz stable language sql as $$ select pg_catalog.now() + interval '%[1]d s' $$;
		create function skew.clock_timestamp() returns timestamptz volatile language sql as $$ select pg_catalog.clock_timestamp() + interval '%[1]d s' $$;
		do $$
		declare
		    d record;
		begin
		    for d in
		        select adrelid::regclass as tab, attname, pg_get_expr(adbin, adrelid) as expr
		        from pg_attrdef join pg_attribute on attrelid = adrelid and attnum = adnum
		        where pg_get_expr(adbin, adrelid) ~ '^(now|clock_timestamp)\(\)$'
		    loop
		        execute format('alter table %%s alter column %%I set default skew.%%s', d.tab, d.attname, d.expr);
		    end loop;
		end $$`, int(by.Seconds())))
	if err != nil {
		t.Fatal(err)
	}
	setForServices(t, db, "search_path = skew, pg_catalog, public")
}

// now is the time by the database's clock.
func (h *house) now(skew time.Duration) time.Time { return time.Now().Add(skew) }

// remind writes a booking whose reminder is due so soon, by the database's clock, and returns
// its time and key.
func (h *house) remind(skew, in time.Duration) (at time.Time, key string) {
	h.T.Helper()
	bookings := seed.New(h.T, h.DB.Admin)
	bookings.Resource(seed.Resource{ID: "reminded"})
	at = h.now(skew).Add(in).Truncate(time.Microsecond)
	b := bookings.Book(seed.Booking{Resource: "reminded", Start: at.Add(time.Hour), Lead: time.Hour, Age: -skew})
	if !b.RemindAt.Equal(at) {
		h.T.Fatal(errors.New("the seed has another time"))
	}
	return at, "reminder-" + b.ID + "-v1"
}
