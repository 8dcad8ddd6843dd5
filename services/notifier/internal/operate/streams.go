package operate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/ops/message"
	"github.com/slotwise/slotwise/pkg/topology"
)

const (
	// streamTimeout bounds what a trace waits for one stream.
	streamTimeout = 3 * time.Second
	// eventsOfType is how many events of one type a trace looks for.
	eventsOfType = 50
)

// events reads what BOOKINGS holds of the booking, in the order of the stream. It asks for
// exact subjects: a wildcard would walk through all of them.
func (d *Desk) events(ctx context.Context, booking, resource string) message.Events {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	answer := message.Events{Found: []message.Event{}}
	for _, typ := range event.Types {
		subject := event.Event{Type: typ, Data: event.Data{Resource: resource, Booking: booking}}.NATSSubject()
		batch, err := jetstreamext.GetBatch(ctx, d.js, topology.Bookings, eventsOfType, jetstreamext.GetBatchSubject(subject))
		if err == nil {
			err = collect(batch, func(m *jetstream.RawStreamMsg) {
				answer.Found = append(answer.Found, message.Event{
					Sequence: m.Sequence, ID: m.Header.Get(nats.MsgIdHdr), Subject: m.Subject, Stored: m.Time,
				})
			})
		}
		if err != nil {
			answer.Error = unreadable(topology.Bookings, err)
			break
		}
	}
	slices.SortFunc(answer.Found, func(a, b message.Event) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return answer
}

// reminders reads what REMINDERS holds of the booking: schedules, and what has fired and waits
// for the planner.
func (d *Desk) reminders(ctx context.Context, booking string) message.Reminders {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	answer := message.Reminders{Found: []message.Reminder{}}
	subjects := []string{"reminder.at." + booking + ".*", "reminder.due." + booking + ".*"}
	last, err := jetstreamext.GetLastMsgsFor(ctx, d.js, topology.Reminders, subjects)
	if err == nil {
		err = collect(last, func(m *jetstream.RawStreamMsg) {
			answer.Found = append(answer.Found, message.Reminder{Subject: m.Subject, Schedule: fires(m), Stored: m.Time})
		})
	}
	if err != nil {
		answer.Error = unreadable(topology.Reminders, err)
	}
	return answer
}

// collect hands over every message. That there is none is no error.
func collect(messages func(func(*jetstream.RawStreamMsg, error) bool), take func(*jetstream.RawStreamMsg)) error {
	for m, err := range messages {
		if errors.Is(err, jetstreamext.ErrNoMessages) {
			return nil
		}
		if err != nil {
			return err
		}
		take(m)
	}
	return nil
}

// fires is when a scheduled message does, nil for one that has.
func fires(m *jetstream.RawStreamMsg) *time.Time {
	text, ok := strings.CutPrefix(m.Header.Get(jetstream.ScheduleHeader), "@at ")
	when, err := time.Parse(time.RFC3339Nano, text)
	if !ok || err != nil {
		return nil
	}
	return &when
}

func unreadable(stream string, err error) string {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return "the stream " + stream + " is not there"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return "the stream " + stream + " did not answer in time"
	}
	return "the stream " + stream + " could not be read: " + err.Error()
}
