package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slotwise/slotwise/e2e/install"
	"github.com/slotwise/slotwise/e2e/stack"
)

// quick lets a hand whose sender died be taken over within seconds, and the audit find rows
// that are three seconds old.
func quick(c *stack.Config) {
	c.Keep = true
	c.Env["SLOTWISE_TIMES"] = "lease=3s,renew=1s,dot=3s,answer=2s,cap=5s,quiet=7s,sweep=300ms,audit=1s,young=3s"
}

// load books n times, a pause apart, each until it is answered with 201.
func load(in *install.Installation, n int, pause time.Duration) {
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() {
			in.Insist(install.Request{
				Body: install.Seat("hall", fmt.Sprintf("guest%d@customer.example", i), install.InDays(3)),
				Key:  fmt.Sprintf("guest-%d", i),
			})
		})
		time.Sleep(pause) //nolint:forbidigo // the load's own pace
	}
	done.Wait()
}

// confirmed waits until every booking has its confirmation, then counts the mails: copies
// beyond the first are no more than the hands that are marked.
func confirmed(in *install.Installation, bookings int, within time.Duration) {
	in.T.Helper()
	in.Eventually(within, "every confirmation is sent", func(context.Context) error {
		if n := in.Count(`select count(*) from notifier.send_log where kind = 'confirm' and state = 'sent'`); n < bookings {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	all, err := letters(in.T.Context(), in, "")
	if err != nil {
		in.T.Fatal(err)
	}
	distinct := map[string]bool{}
	for _, l := range all {
		distinct[l.Header.Get("Message-Id")] = true
	}
	copies, marks := len(all)-len(distinct), in.Count(`select count(*) from notifier.hands where unknown`)
	if len(distinct) != bookings || copies > marks {
		in.T.Errorf("%d bookings have %d confirmations and %d copies of them, with %d hands marked", bookings, len(distinct), copies, marks)
	}
}

// Every part is killed again and again while bookings come in. Each that was answered has its
// mail, and copies are counted.
func TestB19B23KilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	in := install.Start(t, quick)
	ctx, stop := context.WithCancel(t.Context())
	var killing sync.WaitGroup
	killing.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			name := []string{"notifier", "relay", "booking", "scheduler", "nats"}[n%5]
			in.Part(name).Signal(syscall.SIGKILL) //nolint:errcheck // it may be dead already
			select {
			case <-ctx.Done():
			case <-time.After(400 * time.Millisecond):
			}
		}
	})
	load(in, 60, 100*time.Millisecond)
	stop()
	killing.Wait()
	confirmed(in, 60, 90*time.Second)
}

// NATS is away and bookings come in: mails go out all the same, by the audit. It comes back
// with an empty store: the outbox drains, and no second mail goes.
func TestB39B58NATSAwayAndWiped(t *testing.T) {
	t.Parallel()
	in := install.Start(t, quick)
	load(in, 10, 0)
	confirmed(in, 10, 30*time.Second)
	if err := in.Part("nats").Kill(); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		in.Book("hall", fmt.Sprintf("late%d@customer.example", i), install.InDays(3))
	}
	confirmed(in, 20, 60*time.Second)
	if err := os.RemoveAll(filepath.Join(in.Dir, "nats")); err != nil {
		t.Fatal(err)
	}
	if err := in.Part("nats").Start(); err != nil {
		t.Fatal(err)
	}
	in.Eventually(60*time.Second, "the outbox drains", func(context.Context) error {
		if n := in.Count(`select count(*) from booking.outbox_events where published_at is null`); n > 0 {
			return fmt.Errorf("%d events wait", n)
		}
		return nil
	})
	confirmed(in, 20, 30*time.Second)
}

// Every service is told to stop and started again: what was in hand is finished, no hand is
// left behind.
func TestB141StopFinishesWhatIsInHand(t *testing.T) {
	t.Parallel()
	in := install.Start(t, quick)
	var loading sync.WaitGroup
	loading.Go(func() { load(in, 40, 50*time.Millisecond) })
	for _, name := range stack.Services {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		if err := in.Part(name).Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		cancel()
		if err := in.Part(name).Start(); err != nil {
			t.Fatal(err)
		}
	}
	loading.Wait()
	confirmed(in, 40, 60*time.Second)
	if marks := in.Count(`select count(*) from notifier.hands where unknown`); marks != 0 {
		t.Errorf("%d hands were marked by stops that had time", marks)
	}
}
