package outage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/natskeys"
)

// B56: JetStream's store of 10 MB is full. Bookings are accepted all the same, the outbox
// grows and its figures show it, nothing is parked, and once there is room the relay goes on.
func TestB56StoreIsFull(t *testing.T) {
	t.Parallel()
	bus := bustest.New(t, bustest.Change(func(o *natsserver.Options) { o.JetStreamMaxStore = 10 << 20 }))
	db := dbtest.New(t)
	s := start(t, func(c *stack.Config) {
		c.DatabaseURL, c.Password, c.NATSURL = db.URL(""), dbtest.Password, bus.URL()
		giveKeys(t, bus, filepath.Join(c.Dir, "keys"))
	})
	booked := []string{s.book("before")}
	s.awaitMails(booked, 20*time.Second)

	js := bus.JetStream(bustest.Admin)
	ballast(t, js)
	for n := range 30 {
		booked = append(booked, s.book(fmt.Sprintf("full-%d", n)))
	}
	s.Eventually(20*time.Second, "the relay's figures show a backlog and a pause", func(ctx context.Context) error {
		waiting, err := s.figure(ctx, "slotwise_outbox_waiting")
		oldest, err2 := s.figure(ctx, "slotwise_outbox_oldest_seconds")
		paused, err3 := s.figure(ctx, "slotwise_relay_paused")
		err = errors.Join(err, err2, err3)
		if err == nil && (waiting < 20 || oldest < 1 || paused != 1) {
			err = fmt.Errorf("%v events wait, the oldest for %v s, paused: %v", waiting, oldest, paused)
		}
		return err
	})
	if err := js.DeleteStream(t.Context(), "BALLAST"); err != nil {
		t.Fatal(err)
	}
	s.awaitMails(booked, 60*time.Second)
	s.Eventually(20*time.Second, "nothing waits or is parked", func(ctx context.Context) error {
		waiting, err := s.figure(ctx, "slotwise_outbox_waiting")
		parked, err2 := s.figure(ctx, "slotwise_outbox_parked")
		err = errors.Join(err, err2)
		if err == nil && waiting+parked != 0 {
			err = fmt.Errorf("%v wait, %v are parked", waiting, parked)
		}
		return err
	})
	if n := bus.Messages(t.Context(), "BOOKINGS"); n != uint64(len(booked)) {
		t.Errorf("%d events in the stream, want one for each of %d bookings", n, len(booked))
	}
}

// giveKeys lets a stack's parts log in to a server that is not the stack's own.
func giveKeys(t *testing.T, bus *bustest.Server, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, user := range natskeys.Users() {
		seed, err := os.ReadFile(bus.SeedFile(user))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, user+".nk"), seed, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// ballast fills the store with a stream of its own until it takes not even a byte.
func ballast(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "BALLAST", Subjects: []string{"ballast"}})
	if err != nil {
		t.Fatal(err)
	}
	for size := 128 << 10; size > 0; {
		_, err := js.Publish(t.Context(), "ballast", make([]byte, size))
		if refused, ok := errors.AsType[*jetstream.APIError](err); ok {
			if refused.ErrorCode != 10023 && refused.ErrorCode != 10002 {
				t.Fatalf("the store is full otherwise than expected: %v", err)
			}
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
