package chaos

import (
	"fmt"
	"sync"
	"time"

	"github.com/slotwise/slotwise/e2e/install"
	"github.com/slotwise/slotwise/pkg/id"
)

// guest is a customer who books once and may change their mind.
type guest struct {
	n       int
	moves   bool
	cancels bool
	hosted  bool
	booking install.Booking // as last answered
	owed    []id.Mail       // to the customer, in order; a host gets a copy of each
}

// address has one recipient a guest.
func (g *guest) address() string { return fmt.Sprintf("guest%d@customer.example", g.n) }

// mails are the keys of a mail to the guest and of the host's copy, if the guest has a host.
func (g *guest) mails(m id.Mail) []string {
	keys := []string{m.String()}
	if g.hosted {
		m.Host = true
		keys = append(keys, m.String())
	}
	return keys
}

// load lets n more guests book, move and cancel, all at the same time; each insists until it
// is answered. It returns a function that waits for them.
func (h *house) load(n int, urls ...string) (wait func()) {
	var busy sync.WaitGroup
	for range n {
		i := len(h.guests)
		g := &guest{n: i, moves: i%4 >= 2, cancels: i%2 == 1, hosted: i%8 >= 4}
		h.guests = append(h.guests, g)
		busy.Go(func() { g.live(h.Client(urls...)) })
	}
	return busy.Wait
}

// live is what a guest does.
func (g *guest) live(c *install.Client) {
	resource := "hall"
	if g.hosted {
		resource = "hosted"
	}
	do := func(kind string, r install.Request) bool {
		r.Key = fmt.Sprintf("guest-%d-%s", g.n, kind)
		b, ok := c.Insist(r)
		if ok {
			g.booking = b
			g.owed = append(g.owed, id.Mail{Kind: kind, Booking: b.ID, Version: b.Version})
		}
		return ok
	}
	if !do("confirm", install.Request{Body: install.Seat(resource, g.address(), install.InDays(3))}) {
		return
	}
	change := func(kind, path string, body map[string]any) bool {
		return do(kind, install.Request{Path: "/" + g.booking.ID + path, Body: body, Version: g.booking.Version})
	}
	if g.moves && !change("move", "/reschedule", map[string]any{"start": install.InDays(4).UTC().Format(time.RFC3339)}) {
		return
	}
	if g.cancels {
		change("cancel", "/cancel", map[string]any{})
	}
}
