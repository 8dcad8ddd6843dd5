package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

const messagesOf = `
	select key, channel, kind, coalesce(version, 0), coalesce(role, ''), coalesce(endpoint, ''),
	       state, coalesce(reason, ''), due_at, handed_at, accepted_at, unknowns
	from notifier.for_booking
	where booking = $1
	order by due_at, key`

// Get implements [app.Store]: one round trip.
func (s *Store) Get(ctx context.Context, id string) (app.View, error) {
	var facts app.Facts
	var messages []app.Message
	batch := &pgx.Batch{}
	batch.Queue(factsOfBooking, id).QueryRow(func(row pgx.Row) error { return unlessNone(scanFacts(row, &facts)) })
	batch.Queue(messagesOf, id).Query(func(rows pgx.Rows) (err error) {
		messages, err = pgx.CollectRows(rows, scanMessage)
		return err
	})
	if err := s.db.SendBatch(ctx, batch).Close(); err != nil {
		return app.View{}, classify(fmt.Errorf("get booking: %w", err))
	}
	if facts.Booking.ID == "" {
		return app.View{}, booking.ErrNotFound
	}
	return app.View{Booking: facts.Booking, Resource: facts.Resource, Messages: messages}, nil
}

func scanMessage(row pgx.CollectableRow) (app.Message, error) {
	var m app.Message
	var handed, accepted *time.Time
	err := row.Scan(&m.Key, &m.Channel, &m.Kind, &m.Version, &m.Role, &m.Endpoint,
		&m.State, &m.Reason, &m.DueAt, &handed, &accepted, &m.Unknowns)
	m.HandedAt, m.AcceptedAt = orZero(handed), orZero(accepted)
	return m, err
}
