package outage

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/pooler"
	"github.com/slotwise/slotwise/testkit/seed"
)

// B34, B35: all services reach PostgreSQL through PgBouncer in transaction mode. The relay
// does not LISTEN, so the doorbell wakes it all the same; two schedulers need no lock, so
// there is one schedule, and one reminder, for each booking.
func TestB34B35BehindAPooler(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	p := pooler.New(t, db, "slotwise_booking", "slotwise_relay", "slotwise_notifier", "slotwise_scheduler")
	const poll = time.Minute
	s := start(t, func(c *stack.Config) {
		c.DatabaseURL, c.Password, c.Pooler = db.URL(""), dbtest.Password, p.Addr()
		c.Env["RELAY_POLL"] = poll.String()
	})

	begin := time.Now()
	s.awaitMails([]string{s.book("bell")}, poll/2) // before the poll: by the doorbell
	t.Logf("a confirmation after %s, the relay polls every %s", time.Since(begin).Round(time.Millisecond), poll)

	const owed = 50
	bookings := seed.New(t, db.Admin)
	bookings.Resource(seed.Resource{ID: "cellar"})
	reminders := make([]string, 0, owed)
	begin = time.Now()
	for range owed {
		start := begin.Add(time.Hour).Truncate(time.Microsecond)
		b := bookings.Book(seed.Booking{Resource: "cellar", Start: start, Lead: time.Hour - 15*time.Second})
		reminders = append(reminders, b.ID)
	}
	// Both write every schedule: the second by its reconcile at start, then both, as they come
	// to the events that a ring of the bell lets out.
	s.Copy("scheduler 2", "scheduler")
	s.Eventually(14*time.Second, "the second scheduler has reconciled", func(context.Context) error {
		if last := s.lastSequence("REMINDERS"); last < owed+1 {
			return fmt.Errorf("%d schedules", last)
		}
		return nil
	})
	s.book("bell-again")
	s.Eventually(60*time.Second, "every reminder is sent", func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, db.URL(""))
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		var sent int
		err = conn.QueryRow(ctx, `
			select count(*) from notifier.send_log l
			 where booking = any ($1) and kind = 'reminder' and state = 'sent'
			   and (select count(*) from notifier.hands h where h.key = l.key) = 1`, reminders).Scan(&sent)
		if err == nil && sent != owed {
			err = fmt.Errorf("%d so far", sent)
		}
		return err
	})
	// One schedule and one firing for each: a second schedule would have had a number too. The
	// two bookings of the API have a schedule that has not fired.
	if last := s.lastSequence("REMINDERS"); last != 2*owed+2 {
		t.Errorf("%d messages were written to REMINDERS, want %d", last, 2*owed+2)
	}
}

// lastSequence is the number of messages that were ever written to a stream.
func (s *system) lastSequence(stream string) uint64 {
	s.T.Helper()
	nkey, err := nats.NkeyOptionFromSeed(s.SeedFile("dev"))
	if err != nil {
		s.T.Fatal(err)
	}
	nc, err := nats.Connect(s.NATSURL(), nkey, nats.CustomInboxPrefix("_INBOX_dev"))
	if err != nil {
		s.T.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		s.T.Fatal(err)
	}
	found, err := js.Stream(s.T.Context(), stream)
	if err != nil {
		s.T.Fatal(err)
	}
	return found.CachedInfo().State.LastSeq
}
