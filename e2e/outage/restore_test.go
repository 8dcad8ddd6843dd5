package outage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slotwise/slotwise/e2e/install"
	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/pkg/event"
)

// PostgreSQL is restored to an earlier point while JetStream knows more. After the drill of
// docs/operations.md customers have been told how their bookings really stand, consumers see
// versions that are higher than all they saw, and what was lost is listed. Nothing is mailed
// while the operator still looks.
func TestPostgresRestoredToAnEarlierPoint(t *testing.T) {
	t.Parallel()
	in := install.Start(t)
	kept := in.Book("hall", "kept@customers.example", install.InDays(3))
	moved := in.Book("hall", "moved@customers.example", install.InDays(3))
	cancelled := in.Book("hall", "cancelled@customers.example", install.InDays(3))
	awaitSent(in, 3)

	stopServices(in)
	earlier := in.DB.Name + "_earlier"
	maintain(in, `create database "`+earlier+`" template "`+in.DB.Name+`"`)
	startServices(in)
	in.Move(moved, install.InDays(4))
	in.Cancel(cancelled)
	lost := in.Book("hall", "lost@customers.example", install.InDays(3))
	awaitSent(in, 6)

	stopServices(in)
	maintain(in, `drop database "`+in.DB.Name+`"`)
	maintain(in, `alter database "`+earlier+`" rename to "`+in.DB.Name+`"`)
	turn(in, "pause")
	for run, raised := range []int{2, 0} { // a second run finds nothing to do
		said := drill(in)
		for _, want := range []string{fmt.Sprintf("4 bookings compared, %d raised, 1 lost", raised), "lost: booking " + lost.ID + " of hall, confirmed"} {
			if !strings.Contains(said, want) {
				t.Errorf("run %d of the drill says\n%swant %q", run+1, said, want)
			}
		}
	}
	startServices(in)
	in.Eventually(30*time.Second, "what is owed is planned", func(ctx context.Context) error { return count(ctx, in, 2, `state = 'planned'`) })
	turn(in, "resume")
	in.Eventually(30*time.Second, "customers are told how it stands", func(ctx context.Context) error {
		return count(ctx, in, 2, `state = 'sent' and kind = 'confirm' and version = 3 and booking::text = any ($1)`, []string{moved.ID, cancelled.ID})
	})
	if err := count(t.Context(), in, 1, `booking = $1`, kept.ID); err != nil {
		t.Errorf("messages of the booking that nobody changed: %v", err)
	}
	for _, b := range []install.Booking{moved, cancelled} {
		b.Version = 3
		if last := lastOf(in, b.ID); last.Data.Version != 3 || last.Data.Status != event.StatusConfirmed || !last.Data.Start.Equal(b.Start) {
			t.Errorf("the last event of %s is %+v", b.ID, last)
		}
		if next := in.Cancel(b); next.Version != 4 {
			t.Errorf("the next change makes v%d, want v4", next.Version)
		}
	}
}

// stopServices ends the services, and every connection to the database.
func stopServices(in *install.Installation) {
	in.T.Helper()
	ctx, cancel := context.WithTimeout(in.T.Context(), 30*time.Second)
	defer cancel()
	var stopping sync.WaitGroup
	for _, name := range stack.Services {
		stopping.Go(func() {
			if err := in.Part(name).Stop(ctx); err != nil {
				in.T.Errorf("stop %s: %v", name, err)
			}
		})
	}
	stopping.Wait()
	in.DB.Admin.Reset()
}

func startServices(in *install.Installation) {
	in.T.Helper()
	for _, name := range stack.Services {
		if err := in.Part(name).Start(); err != nil {
			in.T.Fatal(err)
		}
	}
	if err := in.Ready(in.T.Context()); err != nil {
		in.T.Fatal(err)
	}
}

// maintain runs sql beside the database, which nobody uses.
func maintain(in *install.Installation, sql string) {
	in.T.Helper()
	config, err := pgx.ParseConfig(in.DatabaseURL(""))
	if err != nil {
		in.T.Fatal(err)
	}
	config.Database = "postgres"
	conn, err := pgx.ConnectConfig(in.T.Context(), config)
	if err != nil {
		in.T.Fatal(err)
	}
	defer conn.Close(in.T.Context())
	_, err = conn.Exec(in.T.Context(), `select pg_terminate_backend(pid) from pg_stat_activity where datname like $1 || '%'`, in.DB.Name)
	if err != nil {
		in.T.Fatal(err)
	}
	in.Eventually(20*time.Second, sql, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

// turn does what the drill does in psql before the services run, and undoes it.
func turn(in *install.Installation, how string) {
	in.T.Helper()
	for _, what := range []string{"mail", "webhooks"} {
		if _, err := in.DB.Admin.Exec(in.T.Context(), `select notifier.`+how+`($1, 'restore')`, what); err != nil {
			in.T.Fatal(err)
		}
	}
}

// drill runs `slotwise snapshot | booking raise` and returns what that says.
func drill(in *install.Installation) string {
	in.T.Helper()
	ctx, cancel := context.WithTimeout(in.T.Context(), 30*time.Second)
	defer cancel()
	var events, said, faults bytes.Buffer
	snapshot := exec.CommandContext(ctx, filepath.Join(in.Bin, "slotwise"), "snapshot") //nolint:gosec // our own
	snapshot.Env = append(os.Environ(), "NATS_URL="+in.NATSURL(), "NATS_NKEY_FILE="+filepath.Join(in.Dir, "keys", "dev.nk"))
	snapshot.Stdout, snapshot.Stderr = &events, &faults
	raise := exec.CommandContext(ctx, filepath.Join(in.Bin, "booking"), "raise") //nolint:gosec // our own
	raise.Env = append(os.Environ(), "DATABASE_URL="+in.DatabaseURL("slotwise_booking"))
	raise.Stdin, raise.Stdout, raise.Stderr = &events, &said, &faults
	if err := errors.Join(snapshot.Run(), raise.Run()); err != nil {
		in.T.Fatalf("slotwise snapshot | booking raise: %v\n%s%s", err, &said, &faults)
	}
	return said.String()
}

// lastOf is the last event of a booking that the stream holds.
func lastOf(in *install.Installation, booking string) event.Event {
	in.T.Helper()
	var payload []byte
	err := in.DB.Admin.QueryRow(in.T.Context(), `
		select payload from booking.outbox_events where key = $1 and published_at is not null order by id desc limit 1`, booking).Scan(&payload)
	if err != nil {
		in.T.Fatal(err)
	}
	e, err := event.Decode(payload)
	if err != nil {
		in.T.Fatal(err)
	}
	return e
}

// awaitSent waits until that many mails are sent and nothing waits to be.
func awaitSent(in *install.Installation, mails int) {
	in.T.Helper()
	in.Eventually(30*time.Second, fmt.Sprintf("%d mails are sent", mails), func(ctx context.Context) error {
		return errors.Join(count(ctx, in, mails, `state = 'sent'`), count(ctx, in, 0, `state <> 'sent'`))
	})
}

// count fails unless the send log has so many rows of which the condition holds.
func count(ctx context.Context, in *install.Installation, want int, condition string, args ...any) error {
	var n int
	if err := in.DB.Admin.QueryRow(ctx, `select count(*) from notifier.send_log where `+condition, args...).Scan(&n); err != nil {
		return err
	}
	if n != want {
		return fmt.Errorf("%d rows with %s, want %d", n, condition, want)
	}
	return nil
}
