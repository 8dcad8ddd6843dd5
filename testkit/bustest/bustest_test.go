package bustest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/natskeys"
)

func TestEveryUserConnects(t *testing.T) {
	t.Parallel()
	bus := bustest.New(t)
	for _, user := range append(natskeys.Users(), bustest.Admin) {
		if nc := bus.Connect(user); !nc.IsConnected() {
			t.Errorf("%s is not connected", user)
		}
	}
}

func TestPermissionsAreThoseOfTheFile(t *testing.T) {
	t.Parallel()
	bus := bustest.New(t)
	createStream(t, bus)
	relay := bus.JetStream("relay")
	if _, err := relay.Publish(t.Context(), "booking.v1.confirmed.room.one", nil); err != nil {
		t.Errorf("the relay may not publish: %v", err)
	}
	denied := make(chan error, 10)
	nc := bus.Connect("booking", nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	if err := nc.Publish("booking.v1.confirmed.room.two", nil); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-denied:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("publish as booking: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the booking service may publish events")
	}
	if n := bus.Messages(t.Context(), "BOOKINGS"); n != 1 {
		t.Errorf("%d messages, want 1", n)
	}
}

func TestStopAndStart(t *testing.T) {
	t.Parallel()
	bus := bustest.New(t)
	createStream(t, bus)
	js := bus.JetStream(bustest.Admin)
	publish(t, js)
	url := bus.URL()
	bus.Stop()
	bus.Stop() // nothing to stop
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := js.Publish(ctx, "booking.v1.confirmed.room.two", nil); err == nil {
		t.Error("published to a stopped server")
	}
	bus.Start()
	if bus.URL() != url {
		t.Errorf("it moved from %s to %s", url, bus.URL())
	}
	waitConnected(t, js)
	publish(t, js)
	if n := bus.Messages(t.Context(), "BOOKINGS"); n < 2 {
		t.Errorf("%d messages after the restart", n)
	}
}

func TestWipe(t *testing.T) {
	t.Parallel()
	bus := bustest.New(t)
	createStream(t, bus)
	js := bus.JetStream(bustest.Admin)
	publish(t, js)
	bus.Wipe()
	waitConnected(t, js)
	if _, err := js.Stream(t.Context(), "BOOKINGS"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the stream after a wipe: %v", err)
	}
	if n := bus.Messages(t.Context(), "BOOKINGS"); n != 0 {
		t.Errorf("%d messages after a wipe", n)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	var fast, safe server.Options
	bustest.New(t, bustest.Change(func(o *server.Options) { fast = *o }))
	bustest.New(t, bustest.SyncAlways(), bustest.Change(func(o *server.Options) { safe = *o }))
	if fast.SyncAlways || !safe.SyncAlways {
		t.Errorf("sync always: %t by default, %t when asked for", fast.SyncAlways, safe.SyncAlways)
	}
	if safe.PingInterval != time.Minute || safe.MaxPingsOut != 2 {
		t.Errorf("pings are not those of nats.conf: %s, %d", safe.PingInterval, safe.MaxPingsOut)
	}
}

func createStream(t *testing.T, bus *bustest.Server) {
	t.Helper()
	_, err := bus.JetStream("topology").CreateStream(t.Context(), jetstream.StreamConfig{Name: "BOOKINGS", Subjects: []string{"booking.v1.>"}})
	if err != nil {
		t.Fatal(err)
	}
}

func publish(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	if _, err := js.Publish(t.Context(), "booking.v1.confirmed.room.one", nil); err != nil {
		t.Fatal(err)
	}
}

func waitConnected(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	for deadline := time.After(10 * time.Second); !js.Conn().IsConnected(); {
		select {
		case <-deadline:
			t.Fatal("the client does not reconnect")
		case <-time.After(5 * time.Millisecond):
		}
	}
}
