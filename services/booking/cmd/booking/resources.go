package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/services/booking/internal/catalog"
	"github.com/slotwise/slotwise/services/booking/internal/store"
)

// applyResources makes the resources as the file says and prints what that changed. Resources
// that are not in the file stay as they are.
func applyResources(ctx context.Context, s settings, name string, in io.Reader, out io.Writer) error {
	if name != "-" {
		f, err := os.Open(name) //nolint:gosec // the operator names the file
		if err != nil {
			return fmt.Errorf("open resources: %w", err)
		}
		defer f.Close() //nolint:errcheck // only read
		in = f
	}
	all, err := catalog.Read(in)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return withStore(ctx, s, func(bookings *store.Store) error {
		before, err := bookings.PutResources(ctx, all)
		if err != nil {
			return err
		}
		changed := 0
		for _, r := range all {
			if line := catalog.Difference(before[r.ID], r); line != "" {
				fmt.Fprintln(out, line)
				changed++
			}
		}
		fmt.Fprintf(out, "%d resources, %d changed\n", len(all), changed)
		return nil
	})
}

func listResources(ctx context.Context, s settings, out io.Writer) error {
	return withStore(ctx, s, func(bookings *store.Store) error {
		all, err := bookings.Resources(ctx)
		if err != nil {
			return err
		}
		return catalog.List(out, all)
	})
}

func withStore(ctx context.Context, s settings, do func(*store.Store) error) error {
	pool, err := pgdb.Open(ctx, s.database, nil)
	if err != nil {
		return err
	}
	defer pool.Close()
	bookings, err := store.New(pool)
	if err != nil {
		return err
	}
	return do(bookings)
}
