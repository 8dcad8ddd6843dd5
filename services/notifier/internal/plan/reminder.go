package plan

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"go.uber.org/zap"
)

// Booking is what a reminder is planned from: the columns of booking.for_notifier of the same
// names, of a booking that owes one.
type Booking struct {
	Booking      string
	Version      int64
	StartVersion int64
	Status       string
	StartsAt     time.Time
	EndsAt       time.Time
	RemindAt     time.Time
	Seats        int
	Resource     string
	Zone         string
}

// Reminder is the one reminder for the booking's start. It is due at remind_at, however early
// it is planned.
func (b Booking) Reminder() sendlog.Message {
	return sendlog.Message{
		Key:          id.Reminder(b.Booking, b.StartVersion),
		Channel:      sendlog.Email,
		Booking:      b.Booking,
		Kind:         sendlog.Reminder,
		Version:      b.Version,
		StartVersion: b.StartVersion,
		Role:         sendlog.Customer,
		Urgency:      sendlog.UrgentReminder,
		DueAt:        b.RemindAt,
		Facts: sendlog.Facts{
			Status: b.Status, Resource: b.Resource, Start: b.StartsAt.UTC(), End: b.EndsAt.UTC(), Zone: b.Zone, Seats: b.Seats,
		},
	}
}

// Reminders plans the reminders whose schedules have fired.
type Reminders struct {
	DB     *pgxpool.Pool
	Log    Log
	Logger *zap.Logger
}

// Loop returns the loop that plans what the stream REMINDERS brings.
func (r Reminders) Loop(js jetstream.JetStream) bus.Loop {
	return bus.Loop{JS: js, Stream: topology.Reminders, Consumer: topology.NotifierReminders, Handle: r.Handle, Max: batch, Log: r.Logger}
}

// Handle plans the reminders that msgs name and that are still owed. A schedule whose booking
// was moved or cancelled meanwhile fires for nothing.
func (r Reminders) Handle(ctx context.Context, msgs []jetstream.Msg) error {
	fired := make([]event.Reminder, 0, len(msgs))
	for _, m := range msgs {
		reminder, err := event.ParseDueSubject(m.Subject())
		if err != nil {
			return bus.Poison(err.Error())
		}
		fired = append(fired, reminder)
	}
	bookings, err := r.owed(ctx, fired)
	if err != nil {
		return err
	}
	owed := make([]sendlog.Message, 0, len(bookings))
	for _, reminder := range fired {
		if b, ok := bookings[reminder]; ok {
			owed = append(owed, b.Reminder())
			continue
		}
		r.Logger.Debug("reminder not owed any more", zap.String("booking", reminder.Booking), zap.Int64("start_version", reminder.StartVersion))
	}
	if _, err := r.Log.Plan(ctx, owed); err != nil {
		return fmt.Errorf("plan reminders: %w", err)
	}
	return nil
}

const owedSQL = `
	select booking::text, version, start_version, status, starts_at, ends_at, remind_at, seats, resource, zone
	from booking.for_notifier
	where booking = any($1::uuid[])
	  and status = 'confirmed'
	  and remind_at is not null
	  and starts_at > clock_timestamp()`

// owed returns the reminders that the bookings of those that have fired owe now.
func (r Reminders) owed(ctx context.Context, fired []event.Reminder) (map[event.Reminder]Booking, error) {
	ids := make([]string, len(fired))
	for i, f := range fired {
		ids[i] = f.Booking
	}
	rows, _ := r.DB.Query(ctx, owedSQL, ids) // the collector reports this error too
	bookings, err := pgx.CollectRows(rows, pgx.RowToStructByName[Booking])
	if err != nil {
		return nil, fmt.Errorf("read bookings of reminders: %w", err)
	}
	owed := make(map[event.Reminder]Booking, len(bookings))
	for _, b := range bookings {
		owed[event.Reminder{Booking: b.Booking, StartVersion: b.StartVersion}] = b
	}
	return owed, nil
}
