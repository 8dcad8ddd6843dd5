package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

const listResources = `
	select r.id, r.name, r.zone, r.capacity, r.slot_minutes, r.reminder_lead,
	       coalesce(r.host_address, ''), r.retired_at is not null
	from booking.resources r
	order by r.id`

// Resources returns all resources, by id.
func (s *Store) Resources(ctx context.Context) ([]booking.Resource, error) {
	all, err := resources(ctx, s.db, listResources)
	return all, classify(err)
}

const lockResources = `
	select r.id, r.name, r.zone, r.capacity, r.slot_minutes, r.reminder_lead,
	       coalesce(r.host_address, ''), r.retired_at is not null
	from booking.resources r
	where r.id = any ($1)
	order by r.id
	for no key update`

const putResource = `
	insert into booking.resources (id, name, zone, capacity, slot_minutes, reminder_lead, host_address, retired_at)
	values ($1, $2, $3, $4, $5, $6, nullif($7, ''), case when $8::bool then clock_timestamp() end)
	on conflict (id) do update
	set name = excluded.name, zone = excluded.zone, capacity = excluded.capacity, slot_minutes = excluded.slot_minutes,
	    reminder_lead = excluded.reminder_lead, host_address = excluded.host_address,
	    retired_at = case when $8::bool then coalesce(resources.retired_at, excluded.retired_at) end`

// PutResources makes the resources as given, in one transaction, and returns how those were
// that existed. Resources that are not given stay. What is booked stays too, also when a
// capacity is lowered below it.
func (s *Store) PutResources(ctx context.Context, given []booking.Resource) (before map[string]booking.Resource, err error) {
	inOrder := slices.SortedFunc(slices.Values(given), func(a, b booking.Resource) int { return cmp.Compare(a.ID, b.ID) })
	ids := make([]string, 0, len(given))
	for _, r := range inOrder {
		ids = append(ids, r.ID)
	}
	err = pgdb.InTx(ctx, s.db, func(ctx context.Context, tx pgx.Tx) error {
		had, err := resources(ctx, tx, lockResources, ids)
		if err != nil {
			return err
		}
		before = map[string]booking.Resource{}
		for _, r := range had {
			before[r.ID] = r
		}
		batch := &pgx.Batch{}
		for _, r := range inOrder {
			batch.Queue(putResource, r.ID, r.Name, r.Zone, r.Capacity, r.SlotMinutes, r.ReminderLead, r.HostAddress, r.Retired)
		}
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return nil, classify(fmt.Errorf("write resources: %w", err))
	}
	return before, nil
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func resources(ctx context.Context, db querier, sql string, args ...any) ([]booking.Resource, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read resources: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (booking.Resource, error) {
		var r booking.Resource
		err := row.Scan(resourceFields(&r)...)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read resources: %w", err)
	}
	return all, nil
}
