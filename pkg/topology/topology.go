// Package topology declares Slotwise's streams and consumers in one place, and applies them:
// it asks what there is, compares, and writes only a difference. Nothing is ever deleted.
package topology

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/event"
)

// Names of the streams, the consumers and the doorbell's subject.
const (
	Bookings  = "BOOKINGS"
	Reminders = "REMINDERS"

	Planner           = "notifier-planner"    // on Bookings: everything, to the notifier
	SchedulerStarts   = "scheduler-reminders" // on Bookings: events that may set a start, to the scheduler
	NotifierReminders = "notifier-reminders"  // on Reminders: what has fired, to the notifier

	Doorbell = "doorbell.booking" // core NATS, outside of all streams
)

// DedupeWindow is how long Bookings recognises a Nats-Msg-Id. It must be longer than a frozen
// relay keeps its connection (deploy/nats/nats.conf: 4 minutes).
const DedupeWindow = 10 * time.Minute

// Stream is the wanted form of a stream. Shape sets the fields that are Slotwise's to say and
// leaves the others as the server has them.
type Stream struct {
	Name  string
	Shape func(*jetstream.StreamConfig)
}

// Consumer is the wanted form of a durable consumer.
type Consumer struct {
	Stream, Name string
	Shape        func(*jetstream.ConsumerConfig)
}

// Sizes are what an installation chooses.
type Sizes struct {
	Replicas         int   // of both streams: 1 on one machine, 3 in production
	BookingsMaxBytes int64 // 0: no limit. At the limit the stream refuses and the outbox keeps the rows
}

// Streams returns the streams of an installation.
func Streams(sizes Sizes) []Stream {
	return []Stream{
		{Bookings, func(c *jetstream.StreamConfig) {
			c.Description = "What happened to bookings. Facts; the truth is in PostgreSQL."
			c.Subjects = bookingSubjects()
			c.Storage = jetstream.FileStorage
			c.Retention = jetstream.LimitsPolicy
			c.Discard = jetstream.DiscardNew
			c.MaxAge = 30 * 24 * time.Hour
			c.MaxBytes = limit(sizes.BookingsMaxBytes)
			c.Duplicates = DedupeWindow
			c.Replicas = sizes.Replicas
			c.AllowAtomicPublish = true
			c.AllowDirect = true
		}},
		{Reminders, func(c *jetstream.StreamConfig) {
			c.Description = "Reminders that wait (reminder.at) and reminders that have fired (reminder.due)."
			c.Subjects = []string{"reminder.at.*.*", "reminder.due.*.*"}
			c.Storage = jetstream.FileStorage
			c.Retention = jetstream.WorkQueuePolicy
			c.Replicas = sizes.Replicas
			c.AllowMsgSchedules = true
			c.AllowAtomicPublish = true
			c.AllowDirect = true
		}},
	}
}

// Consumers returns the services' own durable consumers: explicit acknowledgement, everything
// from the start, delivered until acknowledged. There is no BackOff list: it would be added to
// the delay of a negative acknowledgement.
func Consumers() []Consumer {
	own := func(filters ...string) func(*jetstream.ConsumerConfig) {
		return func(c *jetstream.ConsumerConfig) {
			c.DeliverPolicy = jetstream.DeliverAllPolicy
			c.AckPolicy = jetstream.AckExplicitPolicy
			c.AckWait = 30 * time.Second
			c.MaxDeliver = -1
			c.MaxAckPending = 1000
			filter(c, filters...)
		}
	}
	return []Consumer{
		{Bookings, Planner, own()},
		{Bookings, SchedulerStarts, own(string(event.Confirmed)+".>", string(event.Rescheduled)+".>")},
		{Reminders, NotifierReminders, own("reminder.due.>")},
	}
}

// filter narrows c to the subjects; none: everything. The server keeps one subject and several
// in different fields.
func filter(c *jetstream.ConsumerConfig, subjects ...string) {
	c.FilterSubject, c.FilterSubjects = "", nil
	if len(subjects) == 1 {
		c.FilterSubject = subjects[0]
	} else {
		c.FilterSubjects = subjects
	}
}

func bookingSubjects() []string {
	all := make([]string, 0, len(event.Types))
	for _, t := range event.Types {
		all = append(all, string(t)+".*.*")
	}
	return all
}

func limit(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}
