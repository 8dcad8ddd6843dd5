package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slotwise/slotwise/pkg/event"
)

// settle waits until there is nothing left to do: no event waits in the outbox, no mail in the
// send log. Reminders wait for their day.
func (h *house) settle(within time.Duration) {
	h.T.Helper()
	h.Eventually(within, "nothing is left to do", func(ctx context.Context) error {
		if err := h.planned(ctx); err != nil {
			return err
		}
		var outbox, mails int
		var first *string
		err := h.DB.Admin.QueryRow(ctx, `
			select (select count(*) from booking.outbox_events where published_at is null),
			       (select count(*) from notifier.send_log where state not in ('sent', 'skipped')),
			       (select key || ' is ' || state || coalesce(': ' || reason, '') from notifier.send_log
			         where state not in ('sent', 'skipped') order by due_at limit 1)`).Scan(&outbox, &mails, &first)
		if err == nil && outbox+mails > 0 {
			return fmt.Errorf("%d events and %d mails are left; %s", outbox, mails, deref(first))
		}
		return err
	})
}

// number runs a query that answers one number.
func (h *house) number(ctx context.Context, sql string, args ...any) (n int, err error) {
	err = h.DB.Admin.QueryRow(ctx, sql, args...).Scan(&n)
	return n, err
}

func deref(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// planned reports whether the send log has every mail that the guests are owed.
func (h *house) planned(ctx context.Context) error {
	for _, key := range h.owed() {
		if n, err := h.number(ctx, `select count(*) from notifier.send_log where key = $1`, key); err != nil || n == 0 {
			return errors.Join(err, fmt.Errorf("%s is not planned", key))
		}
	}
	return nil
}

// owed are the keys of all mails that the guests and their hosts are owed.
func (h *house) owed() []string {
	var keys []string
	for _, g := range h.guests {
		for _, m := range g.owed {
			keys = append(keys, g.mails(m)...)
		}
	}
	return keys
}

// tally is what the promise allows and what has happened of it.
type tally struct {
	copies int // of mails, beyond the first of each
	marks  int // hands that are marked unknown
}

// keepsThePromise checks design §1 once everything is settled, and the order of §5.
func (h *house) keepsThePromise() tally {
	h.T.Helper()
	count := h.copiesAreMarked()
	h.lastMailsAreTrue()
	h.versionsRise()
	h.T.Logf("%d guests, %d mails, %d copies beyond the first, %d marks", len(h.guests), len(h.mail.Messages()), count.copies, count.marks)
	return count
}

// copiesAreMarked checks hand by hand: of the copies of one mail at most one came from a hand
// that is not marked, and no hand brought two.
func (h *house) copiesAreMarked() tally {
	h.T.Helper()
	unknown := h.hands()
	count := tally{}
	for _, marked := range unknown {
		if marked {
			count.marks++
		}
	}
	seen := map[hand]bool{}
	first, unmarked := map[string]bool{}, map[string]int{}
	for _, m := range h.mail.Messages() {
		by := hand{key(m.MessageID), m.Header.Get("Slotwise-Hand")}
		marked, known := unknown[by]
		switch {
		case !known:
			h.T.Errorf("a mail came from a hand that is in no row: %+v", by)
		case seen[by]:
			h.T.Errorf("hand %+v brought two mails", by)
		}
		seen[by] = true
		if !marked {
			unmarked[by.key]++
		}
		if first[by.key] {
			count.copies++
		}
		first[by.key] = true
	}
	for k, n := range unmarked {
		if n > 1 {
			h.T.Errorf("%d copies of %s came from hands that are not marked", n, k)
		}
	}
	if count.copies > count.marks {
		h.T.Errorf("%d copies beyond the first, %d marks", count.copies, count.marks)
	}
	return count
}

// hand names one hand.
type hand struct{ key, token string }

// hands are all hands; the value tells whether it is marked unknown.
func (h *house) hands() map[hand]bool {
	h.T.Helper()
	rows, _ := h.DB.Admin.Query(h.T.Context(), `select key, token::text, unknown from notifier.hands`) // the collector reports this error too
	type row struct {
		Key, Token string
		Unknown    bool
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[row])
	if err != nil {
		h.T.Fatal(err)
	}
	all := map[hand]bool{}
	for _, r := range found {
		all[hand{r.Key, r.Token}] = r.Unknown
	}
	return all
}

// lastMailsAreTrue checks that every guest, and their host, got a mail, and that the last one
// tells how the booking stands now.
func (h *house) lastMailsAreTrue() {
	h.T.Helper()
	last := map[string]string{} // by booking and role
	for _, m := range h.mail.Messages() {
		last[slot(key(m.MessageID))] = key(m.MessageID)
	}
	for _, g := range h.guests {
		if len(g.owed) == 0 {
			h.T.Errorf("guest %d never had an answer", g.n)
			continue
		}
		for _, want := range g.mails(g.owed[len(g.owed)-1]) {
			if got := last[slot(want)]; got != want {
				h.T.Errorf("the last mail of guest %d is %q, want %s", g.n, got, want)
			}
		}
	}
}

// key is the send log's key of a mail.
func key(messageID string) string {
	left, _, _ := strings.Cut(messageID, "@")
	return left
}

// slot is the booking and the role in a key such as email-confirm-<booking>-v1-host.
func slot(key string) string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(key, "email-"), "-")
	booking, version, _ := strings.Cut(rest, "-v")
	return booking + strings.TrimLeft(version, "0123456789")
}

// versionsRise checks that BOOKINGS holds each version of each booking once, in order, but for
// those that were taken out.
func (h *house) versionsRise() {
	h.T.Helper()
	versions := h.versions()
	for _, g := range h.guests[h.lost:] {
		var want []int64
		for v := int64(1); v <= g.booking.Version; v++ {
			want = append(want, v)
		}
		if have := versions[g.booking.ID]; !slices.Equal(have, want) {
			h.T.Errorf("BOOKINGS has the versions %v of guest %d's booking, want %v", have, g.n, want)
		}
	}
}

// versions are those in BOOKINGS, by booking, in the stream's order.
func (h *house) versions() map[string][]int64 {
	h.T.Helper()
	stream, err := h.js.Stream(h.T.Context(), "BOOKINGS")
	if err != nil {
		h.T.Fatal(err)
	}
	state := stream.CachedInfo().State
	all := map[string][]int64{}
	for n := state.FirstSeq; n <= state.LastSeq; n++ {
		m, err := stream.GetMsg(h.T.Context(), n)
		if err != nil {
			h.T.Fatal(err)
		}
		e, err := event.Decode(m.Data)
		if err != nil {
			h.T.Fatal(err)
		}
		all[e.Data.Booking] = append(all[e.Data.Booking], e.Data.Version)
	}
	return all
}
