package pkgtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/testkit/bustest"
)

// apply applies the topology as its own user, with that user's rights.
func apply(t *testing.T, js jetstream.JetStream, teams ...topology.Team) []string {
	t.Helper()
	consumers := topology.Consumers()
	for _, team := range teams {
		consumers = append(consumers, team.Consumer())
	}
	written, err := topology.Apply(t.Context(), js, topology.Streams(topology.Sizes{Replicas: 1}), consumers)
	if err != nil {
		t.Fatal(err)
	}
	return written
}

func TestApplyWritesOnlyADifference(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	js := server.JetStream("topology")
	team := topology.Team{Name: "billing", Events: []event.Type{event.Confirmed, event.Cancelled}, Resources: []string{"room-1", "room-2"}}
	want := []string{
		"created stream BOOKINGS", "created stream REMINDERS", "created consumer notifier-planner",
		"created consumer scheduler-reminders", "created consumer notifier-reminders", "created consumer team-billing",
	}
	if got := apply(t, js, team); !slices.Equal(got, want) {
		t.Errorf("the first wrote %v", got)
	}
	if got := apply(t, js, team); len(got) != 0 {
		t.Errorf("the second wrote %v", got)
	}
	server.Stop()
	server.Start()
	eventually(t, "connected", js.Conn().IsConnected)
	if got := apply(t, js, team); len(got) != 0 {
		t.Errorf("after a restart it wrote %v", got)
	}
}

// Whatever somebody changed by hand is set right; what is not declared stays as it is.
func TestApplyRepairsDrift(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	js, admin := server.JetStream("topology"), server.JetStream(bustest.Admin)
	apply(t, js)
	for name, drift := range map[string]struct {
		do   func(*jetstream.StreamConfig, *jetstream.ConsumerConfig)
		want []string
	}{
		"stream": {
			func(s *jetstream.StreamConfig, _ *jetstream.ConsumerConfig) {
				s.MaxAge, s.Discard, s.Duplicates = time.Hour, jetstream.DiscardOld, time.Minute
			},
			[]string{"updated stream BOOKINGS"},
		},
		"subjects": {
			func(s *jetstream.StreamConfig, _ *jetstream.ConsumerConfig) { s.Subjects = s.Subjects[1:] },
			[]string{"updated stream BOOKINGS"},
		},
		"consumer": {
			func(_ *jetstream.StreamConfig, c *jetstream.ConsumerConfig) {
				c.AckWait, c.MaxDeliver, c.FilterSubject = time.Second, 3, "booking.v1.confirmed.>"
			},
			[]string{"updated consumer notifier-planner"},
		},
		"not ours to say": {
			func(s *jetstream.StreamConfig, c *jetstream.ConsumerConfig) {
				s.Metadata = map[string]string{"owner": "ops"}
				c.Metadata = map[string]string{"owner": "ops"}
			},
			nil,
		},
	} {
		stream, err := admin.Stream(t.Context(), topology.Bookings)
		if err != nil {
			t.Fatal(err)
		}
		consumer, err := stream.Consumer(t.Context(), topology.Planner)
		if err != nil {
			t.Fatal(err)
		}
		s, c := stream.CachedInfo().Config, consumer.CachedInfo().Config
		drift.do(&s, &c)
		if _, err := admin.UpdateConsumer(t.Context(), topology.Bookings, c); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.UpdateStream(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if got := apply(t, js); !slices.Equal(got, drift.want) {
			t.Errorf("%s: wrote %v", name, got)
		}
		if got := apply(t, js); len(got) != 0 {
			t.Errorf("%s: then wrote %v", name, got)
		}
	}
	stream, err := admin.Stream(t.Context(), topology.Bookings)
	if err != nil {
		t.Fatal(err)
	}
	if owner := stream.CachedInfo().Config.Metadata["owner"]; owner != "ops" {
		t.Errorf("the stream's own metadata is gone: %q", owner)
	}
}

// What can't be applied does not keep it from the rest.
func TestApplyGoesOn(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	_, err := server.JetStream(bustest.Admin).CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"booking.v1.confirmed.>"}})
	if err != nil {
		t.Fatal(err)
	}
	written, err := topology.Apply(t.Context(), server.JetStream("topology"), topology.Streams(topology.Sizes{Replicas: 1}), topology.Consumers())
	if want := []string{"created stream REMINDERS", "created consumer notifier-reminders"}; !slices.Equal(written, want) {
		t.Errorf("wrote %v", written)
	}
	for _, part := range []string{"create stream BOOKINGS: ", "subjects overlap", "consumer notifier-planner", "consumer scheduler-reminders"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("no word of %q in %v", part, err)
		}
	}
}

// The streams behave as design §4 says, whatever their settings are called.
func TestStreamsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	js := server.JetStream("topology")
	sizes := topology.Sizes{Replicas: 1, BookingsMaxBytes: 1000}
	if _, err := topology.Apply(t.Context(), js, topology.Streams(sizes), nil); err != nil {
		t.Fatal(err)
	}
	admin := server.JetStream(bustest.Admin)
	for _, subject := range []string{"doorbell.booking", "booking.v1.moved.x.y", "booking.v1.confirmed.x", "reminder.at.x", "reminder.x.y.z"} {
		if _, err := admin.Publish(t.Context(), subject, nil, jetstream.WithRetryAttempts(0)); err == nil {
			t.Errorf("a stream takes %s", subject)
		}
	}
	full := false
	for n := 0; n < 100 && !full; n++ {
		_, err := admin.Publish(t.Context(), "booking.v1.confirmed.x.y", make([]byte, 100))
		full = err != nil
	}
	if n := server.Messages(t.Context(), topology.Bookings); !full || n == 0 {
		t.Errorf("at its limit it refuses: %t, and keeps %d messages", full, n)
	}
	// A schedule fires to its due subject, and what has fired is gone once acknowledged.
	r := event.Reminder{Booking: "0192a4e0-0000-7000-8000-000000000001", StartVersion: 1}
	if _, err := admin.Publish(t.Context(), r.ScheduleSubject(), []byte("x"),
		jetstream.WithScheduleAt(time.Now().Add(time.Second)), jetstream.WithScheduleTarget(r.DueSubject())); err != nil {
		t.Fatal(err)
	}
	apply(t, js) // its consumers
	consumer, err := admin.Consumer(t.Context(), topology.Reminders, topology.NotifierReminders)
	if err != nil {
		t.Fatal(err)
	}
	m, err := consumer.Next(jetstream.FetchMaxWait(10 * time.Second))
	if err != nil || m.Subject() != r.DueSubject() {
		t.Fatalf("fired: %v, %v", m, err)
	}
	if err := m.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "gone", func() bool { return server.Messages(t.Context(), topology.Reminders) == 0 })
}

func TestTeams(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	teams := []topology.Team{
		{Name: "all"},
		{Name: "cancelled", Events: []event.Type{event.Cancelled}},
		{Name: "room-7", Resources: []string{"room-7"}},
		{Name: "both", Events: []event.Type{event.Confirmed}, Resources: []string{"room-7", "room-8"}},
	}
	apply(t, server.JetStream("topology"), teams...)
	admin := server.JetStream(bustest.Admin)
	for _, s := range []string{"booking.v1.confirmed.room-7.a", "booking.v1.confirmed.room-8.b", "booking.v1.cancelled.room-7.a", "booking.v1.changed.room-9.c"} {
		if _, err := admin.Publish(t.Context(), s, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []uint64{4, 1, 2, 2} {
		consumer, err := admin.Consumer(t.Context(), topology.Bookings, "team-"+teams[i].Name)
		if err != nil {
			t.Fatal(err)
		}
		if got := consumer.CachedInfo().NumPending; got != want {
			t.Errorf("team %s sees %d events, wanted %d", teams[i].Name, got, want)
		}
	}
	for _, bad := range []topology.Team{
		{}, {Name: "two words"}, {Name: "a.b"}, {Name: "x", Events: []event.Type{"booking.v1.moved"}}, {Name: "x", Resources: []string{"*"}},
	} {
		if bad.Check() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// stopping ends a context when the first stream has been created.
type stopping struct {
	jetstream.JetStream
	stop func()
}

func (s stopping) CreateStream(ctx context.Context, config jetstream.StreamConfig) (jetstream.Stream, error) {
	defer s.stop()
	return s.JetStream.CreateStream(ctx, config) //nolint:wrapcheck // handed through
}

// Whose time is over in the middle is told so, and what was written until then.
func TestTopologyCutShort(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	js := stopping{bustest.New(t).JetStream("topology"), cancel}
	written, err := topology.Apply(ctx, js, topology.Streams(topology.Sizes{Replicas: 1}), topology.Consumers())
	if !slices.Equal(written, []string{"created stream BOOKINGS"}) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", written, err)
	}
}
