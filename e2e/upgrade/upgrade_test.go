package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slotwise/slotwise/e2e/install"
	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/seed"
)

// world is an installation in which each service is the last release's or today's.
type world struct {
	*install.Installation
	old, today string // folders of programs
}

// A whole rollout: all parts are the last release's, then the schema is today's, then one
// service after the other, in both orders. Whatever is booked in between is mailed once.
func TestRollout(t *testing.T) {
	t.Parallel()
	places, err := install.Programs()
	if err != nil {
		t.Fatal(err)
	}
	last, ok := released(t, places)
	if !ok {
		return
	}
	w := start(t, last, places)

	first := w.Book("hall", "first@customer.example", install.InDays(3))
	w.awaitMails(1)
	w.stop("relay")
	w.Book("hall", "waiting@customer.example", install.InDays(3)) // its event is written by the old schema
	w.migrate()
	w.run("relay", w.old)
	w.awaitMails(2)
	w.Key = seed.Key(t, w.DB.Admin, nil)     // the old services need none, and don't mind it
	first = w.Move(first, install.InDays(4)) // the old services on today's schema
	w.awaitMails(3)

	w.run("notifier", w.today)
	w.Book("hall", "old-booking@customer.example", install.InDays(3))
	w.awaitMails(4)
	w.run("notifier", w.old)
	w.run("booking", w.today)
	w.Book("hall", "new-booking@customer.example", install.InDays(3))
	first = w.Move(first, install.InDays(5))
	w.awaitMails(6)
	for _, service := range []string{"relay", "notifier", "scheduler"} {
		w.run(service, w.today)
	}
	w.Cancel(first)
	w.awaitMails(7)

	if n := w.Count(`select count(*) from notifier.send_log where state not in ('sent', 'skipped') or unknowns > 0`); n != 0 {
		t.Errorf("%d messages are not done", n)
	}
	if n := w.Count(`select count(*) from booking.outbox_events where published_at is null`); n != 0 {
		t.Errorf("%d events wait", n)
	}
	w.planGolden(filepath.Join(last.dir, "pkg", "event", "testdata"))
}

// start starts the last release on a database that knows its schema only.
func start(t *testing.T, last release, places install.Places) *world {
	t.Helper()
	db := dbtest.New(t)
	if _, err := db.Admin.Exec(t.Context(), `drop schema booking, notifier cascade`); err != nil {
		t.Fatal(err)
	}
	w := &world{old: last.bin, today: places.Bin}
	bin := t.TempDir()
	for _, program := range []string{"slotwise", "inbox", "nats-server"} {
		link(t, filepath.Join(places.Bin, program), filepath.Join(bin, program))
	}
	for _, service := range stack.Services {
		link(t, filepath.Join(last.bin, service), filepath.Join(bin, service))
	}
	w.Installation = install.Start(t, func(c *stack.Config) {
		c.DatabaseURL, c.Password, c.Bin, c.NoKey = db.URL(""), dbtest.Password, bin, true
	})
	w.DB = db
	return w
}

func link(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.Symlink(from, to); err != nil {
		t.Fatal(err)
	}
}

// migrate brings both schemas up to date, as a release does before its services.
func (w *world) migrate() {
	w.T.Helper()
	for _, service := range []string{"booking", "notifier"} {
		cmd := exec.CommandContext(w.T.Context(), filepath.Join(w.today, service), "migrate") //nolint:gosec // our own
		cmd.Env = append(os.Environ(), "DATABASE_URL="+w.DatabaseURL("slotwise_"+service+"_owner"))
		if out, err := cmd.CombinedOutput(); err != nil {
			w.T.Fatalf("%s migrate: %v\n%s", service, err, out)
		}
	}
}

func (w *world) stop(service string) {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(w.T.Context(), 15*time.Second)
	defer cancel()
	if err := w.Part(service).Stop(ctx); err != nil {
		w.T.Fatal(err)
	}
}

// run replaces a service by the one in bin and waits until it is ready.
func (w *world) run(service, bin string) {
	w.T.Helper()
	w.stop(service)
	link(w.T, filepath.Join(bin, service), filepath.Join(w.Bin, service))
	if err := w.Part(service).Start(); err != nil {
		w.T.Fatal(err)
	}
	if err := w.Await(w.T.Context(), service); err != nil {
		w.T.Fatal(err)
	}
}

// awaitMails returns once n mails were sent, each by one hand.
func (w *world) awaitMails(n int) {
	w.T.Helper()
	w.Eventually(60*time.Second, fmt.Sprintf("%d mails are sent", n), func(ctx context.Context) error {
		var sent, hands int
		err := w.DB.Admin.QueryRow(ctx, `
			select (select count(*) from notifier.send_log where state = 'sent'), (select count(*) from notifier.hands)`).Scan(&sent, &hands)
		if err == nil && (sent != n || hands != n) {
			err = fmt.Errorf("%d are, by %d hands", sent, hands)
		}
		return err
	})
}

// planGolden publishes the events as the last release wrote them: today's code reads each, and
// the planner plans what they owe.
func (w *world) planGolden(dir string) {
	w.T.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		w.T.Fatalf("no golden events in %s: %v", dir, err)
	}
	nkey, err := nats.NkeyOptionFromSeed(w.SeedFile("relay"))
	if err != nil {
		w.T.Fatal(err)
	}
	nc, err := nats.Connect(w.NATSURL(), nkey, nats.CustomInboxPrefix("_INBOX_relay"))
	if err != nil {
		w.T.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		w.T.Fatal(err)
	}
	var owed []string
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			w.T.Fatal(err)
		}
		e, err := event.Decode(body)
		if err != nil {
			w.T.Errorf("today's code does not read %s: %v", filepath.Base(file), err)
			continue
		}
		if _, err := js.Publish(w.T.Context(), e.NATSSubject(), body, jetstream.WithMsgID(e.ID)); err != nil {
			w.T.Fatal(err)
		}
		if e.Data.ToldCustomer == e.Data.Version && e.Type != event.Erased {
			owed = append(owed, fmt.Sprintf("-%s-v%d", e.Data.Booking, e.Data.Version))
		}
	}
	w.Eventually(30*time.Second, "the golden events are planned", func(ctx context.Context) error {
		for _, end := range owed {
			var n int
			err := w.DB.Admin.QueryRow(ctx, `select count(*) from notifier.send_log where right(key, length($1)) = $1`, end).Scan(&n)
			if err != nil || n == 0 {
				return errors.Join(err, errors.New("nothing is planned for "+strings.TrimPrefix(end, "-")))
			}
		}
		return nil
	})
	if n := w.Count(`select count(*) from notifier.send_log where channel = 'event'`); n != 0 {
		w.T.Errorf("%d events of the last release can't be read", n)
	}
}
