package remind

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/event"
)

// Reminder is a start that owes a reminder, and when.
type Reminder struct {
	event.Reminder
	At time.Time
}

// latest is the first instant that is not scheduled: nats-server counts nanoseconds in 64 bits
// and fires at once what lies beyond (measured with 2.15.2).
var latest = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// Waits reports whether the reminder can be scheduled at now: its time lies ahead, and not
// beyond what a schedule can hold.
func (r Reminder) Waits(now time.Time) bool {
	return r.At.After(now) && r.At.Before(latest)
}

// message is the scheduled message. The time is written with its fraction: the client's own
// option cuts it off, so that the message fires up to a second early (measured).
func (r Reminder) message() (*nats.Msg, error) {
	body, err := json.Marshal(struct {
		event.Reminder
		At time.Time `json:"remind_at"`
	}{r.Reminder, r.At.UTC()})
	if err != nil {
		return nil, fmt.Errorf("encode reminder: %w", err)
	}
	m := nats.NewMsg(r.ScheduleSubject())
	m.Data = body
	m.Header.Set("Nats-Schedule", "@at "+r.At.UTC().Format(time.RFC3339Nano))
	m.Header.Set("Nats-Schedule-Target", r.DueSubject())
	m.Header.Set("Nats-Expected-Last-Subject-Sequence", "0")
	return m, nil
}

// Writer writes schedules. It is for one goroutine.
type Writer struct{ publisher *bus.Publisher }

// NewWriter returns a writer on nc.
func NewWriter(nc *nats.Conn) (*Writer, error) {
	publisher, err := bus.NewPublisher(nc)
	if err != nil {
		return nil, fmt.Errorf("make schedule writer: %w", err)
	}
	return &Writer{publisher}, nil
}

// Close gives back what the writer holds on its connection.
func (w *Writer) Close() { w.publisher.Close() }

// batchFrom is the number of messages from which an atomic batch is cheaper than single ones.
const batchFrom = 50

// Write schedules the reminders that are not scheduled yet, at most [bus.MaxBatch], and
// returns how many that were. Many go as one atomic batch; one that exists already refuses
// the whole of it without a hint, so then they go one by one. After an error some may be
// written; writing all of them again is right.
func (w *Writer) Write(reminders []Reminder) (created int, err error) {
	if len(reminders) >= batchFrom {
		msgs, err := messages(reminders)
		if err != nil {
			return 0, err
		}
		if _, err := w.publisher.PublishBatch(msgs); err == nil {
			return len(reminders), nil
		}
	}
	msgs, err := messages(reminders)
	if err != nil {
		return 0, err
	}
	for _, answer := range w.publisher.Publish(msgs) {
		switch {
		case answer.Err == nil:
			created++
		case !exists(answer.Err) && err == nil:
			err = fmt.Errorf("schedule reminder: %w", answer.Err)
		}
	}
	return created, err
}

func messages(reminders []Reminder) ([]*nats.Msg, error) {
	msgs := make([]*nats.Msg, len(reminders))
	for i, r := range reminders {
		var err error
		if msgs[i], err = r.message(); err != nil {
			return nil, err
		}
	}
	return msgs, nil
}

// exists reports whether the refusal says that the schedule is there, or on its way.
func exists(err error) bool {
	code := bus.Code(err)
	return code == bus.CodeWrongLastSequence || code == bus.CodeWrongLastSequenceOfTwo
}
