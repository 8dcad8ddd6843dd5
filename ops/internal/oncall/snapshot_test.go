package oncall_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/ops/internal/oncall"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/testkit/bustest"
)

const (
	first  = "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"
	second = "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e60"
)

// Of each booking the event with the highest version, whatever the order in which they lie and
// whatever lies between them.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	d := serve(t, nil)
	if _, err := d.run(t, "snapshot"); err == nil || errors.Is(err, oncall.ErrNothing) {
		t.Errorf("without a stream: %v", err)
	}
	js := d.declare(t)
	if _, err := d.run(t, "snapshot"); !errors.Is(err, oncall.ErrNothing) {
		t.Errorf("of an empty stream: %v", err)
	}
	d.publish(t, js, told(second, 1), told(first, 3), told(first, 2), told(second, 2))
	if _, err := js.Publish(t.Context(), "booking.v1.changed.room-7."+second, []byte("{")); err != nil {
		t.Fatal(err)
	}
	out, err := d.run(t, "snapshot")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	var got []string
	for _, line := range lines {
		e, err := event.Decode([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got = append(got, e.ID)
	}
	if want := "booking-" + first + "-v3 booking-" + second + "-v2"; strings.Join(got, " ") != want {
		t.Errorf("snapshot has %s, want %s", got, want)
	}
}

// declare makes the streams, as the topology does.
func (d *desk) declare(t *testing.T) jetstream.JetStream {
	t.Helper()
	js := d.bus.JetStream(bustest.Admin)
	if _, err := topology.Apply(t.Context(), js, topology.Streams(topology.Sizes{Replicas: 1}), nil); err != nil {
		t.Fatal(err)
	}
	return js
}

func (d *desk) publish(t *testing.T, js jetstream.JetStream, events ...event.Event) {
	t.Helper()
	for _, e := range events {
		body, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), e.NATSSubject(), body); err != nil {
			t.Fatal(err)
		}
	}
}

// told is an event of a booking's version.
func told(booking string, version int64) event.Event {
	start := time.Date(2030, 3, 1, 9, 0, 0, 0, time.UTC)
	return event.New(event.Changed, start, event.Data{
		Booking: booking, Version: version, StartVersion: 1, ToldCustomer: 1, Status: event.StatusConfirmed,
		Resource: "room-7", Start: start, End: start.Add(time.Hour), Zone: "Europe/Berlin", Seats: 1,
	})
}
