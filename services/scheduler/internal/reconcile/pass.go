package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/services/scheduler/internal/remind"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// page is how many bookings are asked for at once (a direct get takes 1 024 subjects at most).
const page = 500

// Result is what one pass saw and did.
type Result struct {
	Looked  int `json:"looked"`  // reminders that lie ahead
	Created int `json:"created"` // of them, schedules that were missing
}

// Pass looks at every booking whose reminder lies ahead.
type Pass struct {
	DB     *pgxpool.Pool
	JS     jetstream.JetStream
	Writer *remind.Writer
}

// Run makes one pass. After an error the result tells what was done until then.
func (p Pass) Run(ctx context.Context) (Result, error) {
	var r Result
	var last remind.Reminder
	for {
		owed, err := p.next(ctx, last)
		if err != nil || len(owed) == 0 {
			return r, err
		}
		last = owed[len(owed)-1]
		missing, err := p.missing(ctx, owed)
		if err != nil {
			return r, err
		}
		created, err := p.Writer.Write(missing)
		r.Looked += len(owed)
		r.Created += created
		if err != nil {
			return r, err //nolint:wrapcheck // it says what
		}
	}
}

const nextPage = `
	select booking::text, start_version, remind_at
	from booking.for_scheduler
	where remind_at > now()
	  and status = 'confirmed'
	  and (remind_at, booking) > ($1, $2::uuid)
	order by remind_at, booking
	limit $3`

// next reads the reminders that come after last, in the order of their times. A zero last
// comes before all of them.
func (p Pass) next(ctx context.Context, last remind.Reminder) ([]remind.Reminder, error) {
	booking := last.Booking
	if booking == "" {
		booking = "00000000-0000-0000-0000-000000000000"
	}
	rows, err := p.DB.Query(ctx, nextPage, last.At, booking, page)
	if err != nil {
		return nil, fmt.Errorf("read reminders: %w", err)
	}
	owed, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (remind.Reminder, error) {
		var r remind.Reminder
		err := row.Scan(&r.Booking, &r.StartVersion, &r.At)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read reminders: %w", err)
	}
	return owed, nil
}

// missing are those of owed that wait and have no schedule.
func (p Pass) missing(ctx context.Context, owed []remind.Reminder) ([]remind.Reminder, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	subjects := make([]string, len(owed))
	for i, r := range owed {
		subjects[i] = r.ScheduleSubject()
	}
	there := map[string]bool{}
	msgs, err := jetstreamext.GetLastMsgsFor(ctx, p.JS, topology.Reminders, subjects)
	if err != nil {
		return nil, fmt.Errorf("ask for schedules: %w", err)
	}
	for m, err := range msgs {
		if errors.Is(err, jetstreamext.ErrNoMessages) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("ask for schedules: %w", err)
		}
		there[m.Subject] = true
	}
	var missing []remind.Reminder
	for i, r := range owed {
		if !there[subjects[i]] && r.Waits(time.Now()) {
			missing = append(missing, r)
		}
	}
	return missing, nil
}
