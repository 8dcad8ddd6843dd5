package pkgtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap/zaptest"

	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/retry"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/proxy"
)

// handled remembers what a loop was given.
type handled struct {
	mu    sync.Mutex
	calls [][]string // subjects
	do    func(ctx context.Context, subjects []string) error
}

func (h *handled) handle(ctx context.Context, msgs []jetstream.Msg) error {
	subjects := make([]string, len(msgs))
	for i, m := range msgs {
		subjects[i] = m.Subject()
	}
	h.mu.Lock()
	h.calls = append(h.calls, subjects)
	h.mu.Unlock()
	if h.do == nil {
		return nil
	}
	return h.do(ctx, subjects)
}

// count is how often the message was handed over, alone or with others.
func (h *handled) count(n int) (count int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, call := range h.calls {
		if slices.Contains(call, subject(n)) {
			count++
		}
	}
	return count
}

func (h *handled) all(from, to int) func() bool {
	return func() bool {
		for n := from; n <= to; n++ {
			if h.count(n) == 0 {
				return false
			}
		}
		return true
	}
}

// plannerLoop is a loop of the notifier's planner, with short waits.
func plannerLoop(t *testing.T, js jetstream.JetStream, h *handled) bus.Loop {
	t.Helper()
	return bus.Loop{
		JS: js, Stream: topology.Bookings, Consumer: topology.Planner, Handle: h.handle, Max: 10,
		Again: retry.Backoff{Base: 20 * time.Millisecond, Max: 100 * time.Millisecond}, Log: zaptest.NewLogger(t),
	}
}

// settled waits until the planner's consumer has nothing that waits or is in hand.
func settled(t *testing.T, server *bustest.Server) *jetstream.ConsumerInfo {
	t.Helper()
	js := server.JetStream(bustest.Admin)
	defer js.Conn().Close()
	var info *jetstream.ConsumerInfo
	eventually(t, "all acknowledged", func() bool {
		c, err := js.Consumer(t.Context(), topology.Bookings, topology.Planner)
		if err != nil {
			return false
		}
		info = c.CachedInfo()
		return info.NumPending == 0 && info.NumAckPending == 0
	})
	return info
}

// changed declares the planner's consumer with other times.
func changed(t *testing.T, server *bustest.Server, change func(*jetstream.ConsumerConfig)) {
	t.Helper()
	js := server.JetStream(bustest.Admin)
	defer js.Conn().Close()
	consumer, err := js.Consumer(t.Context(), topology.Bookings, topology.Planner)
	if err != nil {
		t.Fatal(err)
	}
	config := consumer.CachedInfo().Config
	change(&config)
	if _, err := js.UpdateConsumer(t.Context(), topology.Bookings, config); err != nil {
		t.Fatal(err)
	}
}

func TestLoopOutcomes(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 10} {
		server := bustest.New(t)
		declare(t, server)
		publish(t, server, 1, 5)
		failed := map[string]bool{}
		h := &handled{}
		h.do = func(_ context.Context, subjects []string) error {
			switch {
			case slices.Contains(subjects, subject(3)):
				return bus.Poison("nobody can read this")
			case slices.Contains(subjects, subject(2)) && !failed[subjects[0]]:
				failed[subjects[0]] = true
				return errors.New("later")
			}
			return nil
		}
		loop := plannerLoop(t, server.JetStream("notifier"), h)
		loop.Max = most
		stop := background(t, loop.Run)
		info := settled(t, server)
		stop()
		if info.AckFloor.Stream != 5 {
			t.Errorf("max %d: acknowledged up to %d", most, info.AckFloor.Stream)
		}
		alone := func(n int) (count int) {
			for _, call := range h.calls {
				if slices.Equal(call, []string{subject(n)}) {
					count++
				}
			}
			return count
		}
		if alone(3) != 1 {
			t.Errorf("max %d: the poison was handled %d times alone", most, alone(3))
		}
		if alone(2) < 2 && h.count(2) < 3 {
			t.Errorf("max %d: what failed did not come again: %v", most, h.calls)
		}
	}
}

// One bad message of a batch harms only itself: the others are handled alone and are done.
func TestLoopBatchThenAlone(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	declare(t, server)
	publish(t, server, 1, 10)
	bad := true
	var mu sync.Mutex
	h := &handled{do: func(_ context.Context, subjects []string) error {
		mu.Lock()
		defer mu.Unlock()
		if bad && slices.Contains(subjects, subject(4)) {
			return errors.New("bad")
		}
		return nil
	}}
	background(t, plannerLoop(t, server.JetStream("notifier"), h).Run)
	eventually(t, "the bad one again and again", func() bool { return h.count(4) > 4 })
	for n := 1; n <= 10; n++ {
		if count := h.count(n); n != 4 && count > 2 {
			t.Errorf("message %d was handled %d times", n, count)
		}
	}
	mu.Lock()
	bad = false
	mu.Unlock()
	settled(t, server)
}

// With nothing working, a batch is not tried one by one for ever: what is left is put back,
// and a stop does not wait for it.
func TestLoopPutsBackWhatIsLeft(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	declare(t, server)
	publish(t, server, 1, 100)
	h := &handled{do: func(ctx context.Context, _ []string) error {
		<-ctx.Done() // a database that does not answer
		return ctx.Err()
	}}
	loop := plannerLoop(t, server.JetStream("notifier"), h)
	loop.Max, loop.Timeout = 100, 200*time.Millisecond
	began := time.Now()
	stop := background(t, loop.Run)
	eventually(t, "a second batch", func() bool { return h.count(100) > 1 })
	if took := time.Since(began); took > 10*time.Second { // one by one: 20 s
		t.Errorf("the second batch came after %s", took)
	}
	began = time.Now()
	stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stop took %s", took)
	}
}

// B38: the consumer, then the stream is deleted and declared again; the loop goes on.
func TestB38Redeclared(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	declare(t, server)
	h := &handled{}
	background(t, plannerLoop(t, server.JetStream("notifier"), h).Run)
	publish(t, server, 1, 3)
	eventually(t, "the first three", h.all(1, 3))
	admin := server.JetStream(bustest.Admin)
	if err := admin.DeleteConsumer(t.Context(), topology.Bookings, topology.Planner); err != nil {
		t.Fatal(err)
	}
	publish(t, server, 4, 6)
	declare(t, server)
	eventually(t, "what came meanwhile", h.all(4, 6))
	settled(t, server)
	if h.count(1) < 2 {
		t.Error("a consumer that is declared again delivers everything, but the first did not come again")
	}
	if err := admin.DeleteStream(t.Context(), topology.Bookings); err != nil {
		t.Fatal(err)
	}
	declare(t, server)
	publish(t, server, 7, 9)
	eventually(t, "those of the new stream", h.all(7, 9))
}

// B39: NATS comes back with nothing it knew. Loops that ran on handle what is published then.
func TestB39StoreWiped(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	declare(t, server)
	h := &handled{}
	background(t, plannerLoop(t, server.JetStream("notifier"), h).Run)
	publish(t, server, 1, 3)
	eventually(t, "the first three", h.all(1, 3))
	server.Wipe()
	declare(t, server)
	publish(t, server, 4, 6)
	began := time.Now()
	eventually(t, "those after the wipe", h.all(4, 6))
	t.Logf("it took %s", time.Since(began).Round(time.Millisecond))
	settled(t, server)
}

func TestLoopWaitsForItsConsumer(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	server.Stop()
	nc := server.Connect // the client's own way to wait is tested with bus.Connect
	server.Start()
	h := &handled{}
	js, err := jetstream.New(nc("notifier"))
	if err != nil {
		t.Fatal(err)
	}
	background(t, plannerLoop(t, js, h).Run)
	declare(t, server)
	publish(t, server, 1, 2)
	eventually(t, "both", h.all(1, 2))
}

// A stop finishes what was fetched: what was handled is acknowledged, nothing is lost.
func TestLoopStops(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	declare(t, server)
	changed(t, server, func(c *jetstream.ConsumerConfig) { c.AckWait = 2 * time.Second })
	publish(t, server, 1, 40)
	begun := make(chan struct{}, 100)
	first := &handled{do: func(ctx context.Context, _ []string) error {
		begun <- struct{}{}
		return retry.Sleep(ctx, 50*time.Millisecond)
	}}
	stop := background(t, plannerLoop(t, server.JetStream("notifier"), first).Run)
	<-begun
	stop()
	second := &handled{}
	background(t, plannerLoop(t, server.JetStream("notifier"), second).Run)
	settled(t, server)
	for n := 1; n <= 40; n++ {
		if one, two := first.count(n), second.count(n); one+two != 1 {
			t.Errorf("message %d was handled %d and %d times", n, one, two)
		}
	}
	if first.count(1) != 1 {
		t.Error("the first loop did nothing")
	}
}

func TestLoopStopsWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	declare(t, server)
	h := &handled{}
	js := server.JetStream("notifier")
	stop := background(t, plannerLoop(t, js, h).Run)
	publish(t, server, 1, 3)
	eventually(t, "the first three", h.all(1, 3))
	server.Stop()
	eventually(t, "disconnected", func() bool { return !js.Conn().IsConnected() })
	began := time.Now()
	stop()
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("the stop took %s", took)
	}
}

// The connection is cut and comes back: the loop goes on by itself.
func TestLoopAfterACut(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	declare(t, server)
	way := proxy.New(t, server.URL())
	h := &handled{}
	js := through(t, server, way, "notifier")
	background(t, plannerLoop(t, js, h).Run)
	publish(t, server, 1, 3)
	eventually(t, "the first three", h.all(1, 3))
	way.Cut()
	publish(t, server, 4, 6)
	eventually(t, "those after the cut", h.all(4, 6))
	settled(t, server)
}

// B41: messages that wait for another try do not hold up those behind them.
func TestB41DelayedOnesStopNobody(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	declare(t, server)
	const waiting = 500 // the consumer's MaxAckPending is 1000
	publish(t, server, 1, waiting)
	h := &handled{do: func(_ context.Context, subjects []string) error {
		if slices.Contains(subjects, subject(waiting+1)) {
			return nil
		}
		return errors.New("in half an hour")
	}}
	loop := plannerLoop(t, server.JetStream("notifier"), h)
	loop.Max, loop.Again = 1, retry.Backoff{Base: time.Hour, Max: time.Hour}
	background(t, loop.Run)
	eventually(t, "all tried", h.all(1, waiting))
	publish(t, server, waiting+1, waiting+1)
	began := time.Now()
	eventually(t, "the healthy one", h.all(waiting+1, waiting+1))
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the healthy one came after %s", took)
	}
}

// B43: a handler that takes nearly as long as the consumer waits, two loops: each message once.
func TestB43SlowHandler(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	declare(t, server)
	changed(t, server, func(c *jetstream.ConsumerConfig) { c.AckWait = 3 * time.Second })
	publish(t, server, 1, 6)
	h := &handled{do: func(ctx context.Context, _ []string) error { return retry.Sleep(ctx, 1800*time.Millisecond) }}
	for range 2 {
		loop := plannerLoop(t, server.JetStream("notifier"), h)
		loop.Max, loop.Timeout = 1, 2500*time.Millisecond
		background(t, loop.Run)
	}
	settled(t, server)
	for n := 1; n <= 6; n++ {
		if count := h.count(n); count != 1 {
			t.Errorf("message %d was handled %d times", n, count)
		}
	}
}

// B44: an acknowledgement that comes after AckWait does not stand for a delivery that another
// loop has in hand and fails: the message comes again.
func TestB44LateAcknowledgement(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	declare(t, server)
	changed(t, server, func(c *jetstream.ConsumerConfig) { c.AckWait = time.Second })
	publish(t, server, 1, 1)
	secondHas := make(chan struct{})
	firstDone := make(chan struct{})
	done := 0
	var mu sync.Mutex
	deliveries := 0
	handle := func(ctx context.Context, _ []jetstream.Msg) error {
		mu.Lock()
		deliveries++
		mine := deliveries
		mu.Unlock()
		switch mine {
		case 1: // until another has it; then say done, late
			<-secondHas
			defer close(firstDone)
		case 2:
			close(secondHas)
			<-firstDone
			_ = retry.Sleep(ctx, 200*time.Millisecond) // the late acknowledgement arrives
			return errors.New("failed")
		}
		mu.Lock()
		done++
		mu.Unlock()
		return nil
	}
	for range 2 {
		background(t, bus.Loop{
			JS: server.JetStream("notifier"), Stream: topology.Bookings, Consumer: topology.Planner, Handle: handle,
			Again: retry.Backoff{Base: 20 * time.Millisecond, Max: 20 * time.Millisecond}, Log: zaptest.NewLogger(t),
		}.Run)
	}
	// Whatever the server makes of the late one: Handle said done only after its work was done.
	settled(t, server)
	mu.Lock()
	defer mu.Unlock()
	if done == 0 {
		t.Error("acknowledged, and nobody has handled it")
	}
}

// B45: failures come again ever later, and no number of them ends a message.
func TestB45FailuresNeverEndAMessage(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	declare(t, server)
	publish(t, server, 1, 1)
	var mu sync.Mutex
	var at []time.Time
	h := &handled{do: func(context.Context, []string) error {
		mu.Lock()
		defer mu.Unlock()
		at = append(at, time.Now())
		if len(at) < 12 {
			return errors.New("down")
		}
		return nil
	}}
	background(t, plannerLoop(t, server.JetStream("notifier"), h).Run)
	settled(t, server)
	mu.Lock()
	defer mu.Unlock()
	if len(at) != 12 {
		t.Fatalf("%d deliveries", len(at))
	}
	for i := 1; i < len(at); i++ {
		if gap := at[i].Sub(at[i-1]); gap < 10*time.Millisecond || i > 4 && gap < 50*time.Millisecond {
			t.Errorf("delivery %d came %s after the one before", i+1, gap)
		}
	}
}

// through is user's JetStream over a proxy.
func through(t *testing.T, server *bustest.Server, way *proxy.Proxy, user string) jetstream.JetStream {
	t.Helper()
	nc, err := bus.Connect(settings(t, server, way.Addr(), user), zaptest.NewLogger(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}
