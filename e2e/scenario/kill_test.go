package scenario

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slotwise/slotwise/e2e/stack"
)

// shortTimes let a hand whose sender died be taken over within seconds.
const shortTimes = "lease=3s,renew=1s,dot=3s,answer=2s,cap=5s,quiet=7s,sweep=300ms,audit=1s,young=25s"

func rehearsed(c *stack.Config) {
	c.Keep = true
	c.Env["SLOTWISE_TIMES"] = shortTimes
	c.Env["RECONCILE_EVERY"] = "2s"
}

// load books n times in the hall, one after the other, until every one is answered with 201,
// asking again under the same key whatever goes wrong in between. It returns the addresses.
func (in *installation) load(n int, pause time.Duration) []string {
	in.t.Helper()
	addresses := make([]string, n)
	var done sync.WaitGroup
	for i := range n {
		addresses[i] = fmt.Sprintf("guest%d@customer.example", i)
		done.Go(func() {
			key := fmt.Sprintf("guest-%d", i)
			for in.t.Context().Err() == nil {
				status, _, err := in.call(http.MethodPost, "/v1/bookings", booking("hall", addresses[i], inDays(3)), "Idempotency-Key", key)
				if status == http.StatusCreated {
					return
				}
				if status >= 400 && status < 500 && status != http.StatusConflict {
					in.t.Error(err)
					return
				}
				time.Sleep(100 * time.Millisecond) // the service is away for a moment
			}
		})
		time.Sleep(pause)
	}
	done.Wait()
	return addresses
}

// checkMails waits until every address has its confirmation and checks that copies beyond the
// first are no more than the hands that are marked.
func (in *installation) checkMails(addresses []string, within time.Duration) {
	in.t.Helper()
	eventually(in.t, within, "every confirmation is sent", func() (bool, error) {
		left := in.count(`select count(*) from booking.bookings b where not exists (
			select from notifier.send_log s where s.booking = b.id and s.kind = 'confirm' and s.state = 'sent')`)
		if left > 0 {
			return false, fmt.Errorf("%d are not", left)
		}
		return true, nil
	})
	all, err := in.letters()
	if err != nil {
		in.t.Fatal(err)
	}
	copies, byAddress := 0, map[string]int{}
	for _, l := range all {
		to := l.Header.Get("To")
		for _, a := range addresses {
			if containsAddress(to, a) {
				byAddress[a]++
			}
		}
	}
	for _, a := range addresses {
		if byAddress[a] == 0 {
			in.t.Errorf("%s has no mail", a)
		}
		copies += max(0, byAddress[a]-1)
	}
	marks := in.count(`select count(*) from notifier.hands where unknown`)
	if copies > marks {
		in.t.Errorf("%d copies beyond the first, %d hands marked unknown", copies, marks)
	}
	in.t.Logf("%d mails, %d copies beyond the first, %d hands marked", len(all), copies, marks)
}

// Every service is killed again and again while bookings come in: each booking that was
// answered has its mail, and copies are counted.
func TestB19B23KilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	in := run(t, rehearsed)
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
	addresses := in.load(60, 100*time.Millisecond)
	stop()
	killing.Wait()
	in.checkMails(addresses, 90*time.Second)
}

// Every service is frozen in turn, past its lease and its locks' timeouts for some, and thawed.
func TestFrozenAndThawed(t *testing.T) {
	t.Parallel()
	in := run(t, rehearsed)
	ctx, stop := context.WithCancel(t.Context())
	var freezing sync.WaitGroup
	freezing.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			part := in.Part([]string{"notifier", "relay", "booking", "nats"}[n%4])
			part.Signal(syscall.SIGSTOP) //nolint:errcheck // it may be between two lives
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(n%3+1) * 1500 * time.Millisecond):
			}
			part.Signal(syscall.SIGCONT) //nolint:errcheck // the same
		}
	})
	addresses := in.load(60, 150*time.Millisecond)
	stop()
	freezing.Wait()
	in.checkMails(addresses, 90*time.Second)
}

// NATS is stopped, bookings come in, NATS comes back with an empty store: every mail goes out,
// none twice.
func TestB39B58NATSAwayAndWiped(t *testing.T) {
	t.Parallel()
	in := run(t, rehearsed, func(c *stack.Config) { c.Env["SLOTWISE_TIMES"] = shortTimes + ",young=3s" })
	first := in.load(10, 0)
	in.checkMails(first, 30*time.Second)
	if err := in.Part("nats").Kill(); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		in.book("hall", fmt.Sprintf("late%d@customer.example", i), inDays(3))
	}
	in.checkMails(nil, 60*time.Second) // by the audit alone
	in.wipeNATS()
	if err := in.Part("nats").Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 60*time.Second, "the outbox drains", func() (bool, error) {
		return in.count(`select count(*) from booking.outbox_events where published_at is null`) == 0, nil
	})
	all, err := in.letters()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 20 {
		t.Errorf("%d mails for 20 bookings", len(all))
	}
}

// SIGTERM in the middle of the load: every request that was accepted is answered, and all
// processes end by themselves.
func TestB141TermFinishesWhatIsInHand(t *testing.T) {
	t.Parallel()
	in := run(t, rehearsed)
	addresses := in.load(20, 0)
	for _, name := range stack.Services {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := in.Part(name).Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		cancel()
		if err := in.Part(name).Start(); err != nil {
			t.Fatal(err)
		}
	}
	in.checkMails(addresses, 30*time.Second)
	if marks := in.count(`select count(*) from notifier.hands where unknown`); marks != 0 {
		t.Errorf("%d hands were marked by stops that had time", marks)
	}
}
