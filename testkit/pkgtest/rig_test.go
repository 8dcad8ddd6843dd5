package pkgtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/testkit/bustest"
)

// declare applies the topology as its own user, until that works.
func declare(t *testing.T, bus *bustest.Server) {
	t.Helper()
	js := bus.JetStream("topology")
	eventually(t, "topology", func() bool {
		_, err := topology.Apply(t.Context(), js, topology.Streams(topology.Sizes{Replicas: 1}), topology.Consumers())
		return err == nil
	})
}

// publish publishes messages with the ids from one to n on subject's last token.
func publish(t *testing.T, bus *bustest.Server, from, to int) {
	t.Helper()
	js := bus.JetStream("relay")
	defer js.Conn().Close()
	for n := from; n <= to; n++ {
		m := nats.NewMsg(subject(n))
		m.Header.Set(jetstream.MsgIDHeader, fmt.Sprintf("m-%d", n))
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
}

func subject(n int) string { return fmt.Sprintf("booking.v1.changed.room-7.m-%d", n) }

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) { //nolint:forbidigo // between two looks
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// background runs f until the returned function is called or the test ends, and waits for it.
func background(t *testing.T, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stopped := false
	stop = func() {
		t.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(30 * time.Second):
			t.Error("it does not stop within 30 s")
		}
	}
	t.Cleanup(stop)
	return stop
}

var nopLog = zap.NewNop()
