package remind

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/failpoint"
	"github.com/slotwise/slotwise/pkg/topology"
	"go.uber.org/zap"
)

// Follower schedules the reminders that booking events owe.
type Follower struct {
	JS      jetstream.JetStream
	Writer  *Writer
	Created prometheus.Counter // schedules that were written
	Log     *zap.Logger
}

// Run follows the events until ctx ends.
func (f Follower) Run(ctx context.Context) error {
	loop := bus.Loop{JS: f.JS, Stream: topology.Bookings, Consumer: topology.SchedulerStarts, Max: 100, Handle: f.handle, Log: f.Log}
	return loop.Run(ctx) //nolint:wrapcheck // it says what
}

func (f Follower) handle(_ context.Context, msgs []jetstream.Msg) error {
	owed := f.owed(msgs, time.Now())
	failpoint.Hit("scheduler.owed")
	created, err := f.Writer.Write(owed)
	f.Created.Add(float64(created))
	return err
}

// owed are the reminders that the events owe and that wait at now, each once. An event that
// can't be read owes none here: the notifier holds it for a person, and the reconcile works
// from the booking itself.
func (f Follower) owed(msgs []jetstream.Msg, now time.Time) []Reminder {
	var all []Reminder
	seen := map[event.Reminder]bool{}
	for _, m := range msgs {
		e, err := event.Decode(m.Data())
		if err != nil {
			f.Log.Warn("event can't be read", zap.String("subject", m.Subject()), zap.Error(err))
			continue
		}
		r := Reminder{Reminder: event.Reminder{Booking: e.Data.Booking, StartVersion: e.Data.StartVersion}}
		if e.Data.RemindAt != nil {
			r.At = *e.Data.RemindAt
		}
		if r.Waits(now) && !seen[r.Reminder] {
			seen[r.Reminder] = true
			all = append(all, r)
		}
	}
	return all
}
