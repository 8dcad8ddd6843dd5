package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slotwise/slotwise/e2e/install"
)

var withoutRelay = []string{"booking", "notifier", "scheduler"}

// A relay is frozen with rows locked. Another one goes on with all other bookings at once, and
// with those rows and what follows them once PostgreSQL has ended the idle transaction.
func TestFrozenRelayHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	h := open(t, withoutRelay)
	held := h.Book("hall", "held@customer.example", install.InDays(3))
	name, frozen := h.start("relay", "SLOTWISE_FAILPOINTS=relay.claimed=stop")
	h.awaitHit(name, frozen, "relay.claimed", "stop")
	began := time.Now()
	held = h.Cancel(held)
	free := h.Book("hall", "free@customer.example", install.InDays(3))
	h.start("relay")

	h.awaitPublished(free.ID, 1)
	if n := h.Count(`select count(*) from booking.outbox_events where key = $1 and published_at is not null`, held.ID); n > 0 && time.Since(began) < idle {
		t.Errorf("%d events of the held booking are published after %s, while the frozen relay has their lock", n, time.Since(began))
	}
	h.awaitPublished(held.ID, 2)
	took := time.Since(began)
	t.Logf("the held rows were free after %s", took.Round(time.Millisecond))
	if took > idle+5*time.Second { // a poll of 1 s, and time for a busy machine
		t.Errorf("a frozen relay held its rows for %s, want %s and a poll", took, idle)
	}
	h.thaw(frozen)
	h.end(frozen)
	h.settle(30 * time.Second)
	if got := h.versions()[held.ID]; !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("BOOKINGS has the versions %v of the held booking", got)
	}
}

// A relay dies between publish and commit, and nobody looks after it until the stream has
// forgotten the message id. The event is stored a second time; the send log's key stops the
// second mail.
func TestB50PublishedAgainPastTheWindow(t *testing.T) {
	t.Parallel()
	const window = 500 * time.Millisecond
	h := open(t, withoutRelay)
	h.shorten(window)
	b := h.Book("hall", "ada@customer.example", install.InDays(3))
	name, killed := h.start("relay", "SLOTWISE_FAILPOINTS=relay.published=kill")
	h.awaitHit(name, killed, "relay.published", "kill")
	h.mail.Wait(1, 20*time.Second)
	h.awaitForgotten(window)
	h.start("relay")
	h.awaitPublished(b.ID, 1)
	h.Eventually(20*time.Second, "both are planned", func(ctx context.Context) error {
		consumer, err := h.js.Consumer(ctx, "BOOKINGS", "notifier-planner")
		if err != nil {
			return err
		}
		if info := consumer.CachedInfo(); info.AckFloor.Stream < 2 {
			return fmt.Errorf("acknowledged so far: %d", info.AckFloor.Stream)
		}
		return nil
	})
	h.Cancel(b)
	h.awaitPublished(b.ID, 2)
	h.settle(30 * time.Second)
	if got := h.versions()[b.ID]; !slices.Equal(got, []int64{1, 1, 2}) {
		t.Errorf("BOOKINGS has the versions %v, want the first twice", got)
	}
	if count := h.copiesAreMarked(); count.copies != 0 || len(h.mail.Messages()) != 2 {
		t.Errorf("%d mails and %+v, want a confirmation, a cancellation and no copy", len(h.mail.Messages()), count)
	}
}

// shorten makes the dedupe window of BOOKINGS so long, and keeps the topology from mending that.
func (h *house) shorten(window time.Duration) {
	h.T.Helper()
	h.Eventually(20*time.Second, "the window is shortened", func(ctx context.Context) error {
		stream, err := h.js.Stream(ctx, "BOOKINGS")
		if err != nil {
			return err
		}
		if err := h.Part("topology").Kill(); err != nil {
			return err
		}
		config := stream.CachedInfo().Config
		config.Duplicates = window
		_, err = h.js.UpdateStream(ctx, config)
		return err
	})
}

// awaitForgotten returns when the stream does not know the message ids of now any more.
func (h *house) awaitForgotten(window time.Duration) {
	h.T.Helper()
	select {
	case <-h.T.Context().Done():
	case <-time.After(2 * window):
	}
}

// awaitPublished returns once so many events of a booking are marked published.
func (h *house) awaitPublished(booking string, events int) {
	h.T.Helper()
	h.Eventually(20*time.Second, fmt.Sprintf("%d events are published", events), func(ctx context.Context) error {
		n, err := h.number(ctx, `select count(*) from booking.outbox_events where key = $1 and published_at is not null`, booking)
		if err != nil || n < events {
			return errors.Join(err, fmt.Errorf("%d are", n))
		}
		return nil
	})
}
