package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
	"github.com/slotwise/slotwise/services/booking/internal/store"
)

// page is how many bookings are compared at once.
const page = 500

// raise reads the last event of each booking, one a line, and raises the bookings that are
// behind it: see [app.Bookings.Raise]. Bookings that are lost are listed. It may be run again.
func raise(ctx context.Context, s settings, in io.Reader, out io.Writer) error {
	return withStore(ctx, s, func(bookings *store.Store) error {
		r := raising{bookings, app.Bookings{Store: bookings, Bell: silent{}, Lead: s.lead}, out, counts{}}
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 1<<20)
		var events []event.Event
		for n := 1; lines.Scan(); n++ {
			e, err := event.Decode(lines.Bytes())
			if err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			if events = append(events, e); len(events) == page {
				if err := r.page(ctx, events); err != nil {
					return err
				}
				events = events[:0]
			}
		}
		if err := lines.Err(); err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		if err := r.page(ctx, events); err != nil {
			return err
		}
		fmt.Fprintf(out, "%d bookings compared, %d raised, %d lost\n", r.compared, r.raised, r.lost)
		return nil
	})
}

// raising is one run of raise.
type raising struct {
	store    *store.Store
	bookings app.Bookings
	out      io.Writer
	counts
}

type counts struct{ compared, raised, lost int }

func (r *raising) page(ctx context.Context, events []event.Event) error {
	told := make([]app.Told, len(events))
	last := map[string]event.Data{}
	for i, e := range events {
		told[i], last[e.Data.Booking] = app.Told{Booking: e.Data.Booking, Version: e.Data.Version}, e.Data
	}
	r.compared += len(told)
	behind, err := r.store.Behind(ctx, told)
	if err != nil {
		return err
	}
	for _, t := range behind {
		raised, err := r.bookings.Raise(ctx, t)
		switch d := last[t.Booking]; {
		case errors.Is(err, booking.ErrNotFound):
			r.lost++
			fmt.Fprintf(r.out, "lost: booking %s of %s, %s, %s, %d seats\n", d.Booking, d.Resource, d.Status, d.Start.Format(time.RFC3339), d.Seats)
		case err != nil:
			return fmt.Errorf("booking %s: %w", t.Booking, err)
		case raised:
			r.raised++
			fmt.Fprintf(r.out, "raised: booking %s of %s to v%d\n", d.Booking, d.Resource, t.Version+1)
		}
	}
	return nil
}

// silent is a bell that nobody hears: the relay is not running yet, or finds the rows by itself.
type silent struct{}

func (silent) Ring() {}
