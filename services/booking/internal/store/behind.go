package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/services/booking/internal/app"
)

const behind = `
	select t.booking::text, t.version
	from unnest($1::uuid[], $2::bigint[]) t (booking, version)
	left join booking.bookings b on b.id = t.booking
	where b.id is null or b.version < t.version
	order by t.booking`

// Behind returns those of told whose booking has a lower version here, or is not there.
func (s *Store) Behind(ctx context.Context, told []app.Told) ([]app.Told, error) {
	names, versions := make([]string, len(told)), make([]int64, len(told))
	for i, t := range told {
		names[i], versions[i] = t.Booking, t.Version
	}
	rows, _ := s.db.Query(ctx, behind, names, versions) // the collector reports this error too
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[app.Told])
	if err != nil {
		return nil, classify(fmt.Errorf("compare versions: %w", err))
	}
	return all, nil
}
