package sendlog

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/slotwise/slotwise/pkg/pgdb"
)

var (
	//go:embed take.sql
	takeSQL string
	//go:embed read.sql
	readSQL string
)

// handTries is how often a hand is tried that lost a race for a slot.
const handTries = 5

// Hand takes at most n due e-mails, at most late of them (a few more when urgencies differ)
// past due by [Times.Late], and returns those that are to be sent now: they are in hand, each
// with a slot of its own and a lease. What turned out to be superseded, useless, erased or
// outdated is closed, what is in another row's quiet time is put back; neither counts as a hand.
//
// More reports that there may be more to do at once: all that was asked for was there, or
// something was closed, and what it stood before may be due. The transaction is one
// round trip; when its answer is lost, what it took is in nobody's hand and its lease ends.
func (l *Log) Hand(ctx context.Context, n, late int) (hands []Hand, more bool, err error) {
	for try := 1; ; try++ {
		hands, more, err = l.hand(ctx, n, late)
		if err == nil || !lostRace(err) || try == handTries {
			return hands, more, err
		}
	}
}

// lostRace: two hands chose rows of one slot at once, or deadlocked over several. All of this
// one was rolled back, and what the other took is visible by now.
func lostRace(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return pgdb.Violates(err, "send_log_slot") || ok && pgErr.Code == "40P01"
}

func (l *Log) hand(ctx context.Context, n, late int) ([]Hand, bool, error) {
	token, begun := uuid.NewString(), time.Now()
	b := Batch()
	b.Queue(takeSQL, token, n, late, l.times.Lease, l.times.Late)
	b.Queue(readSQL, token, l.times.CatchUp, l.times.Late)
	results := l.pool.SendBatch(ctx, b)
	defer results.Close() //nolint:errcheck // closed below as well, where its error counts
	if _, err := results.Exec(); err != nil {
		return nil, false, fmt.Errorf("hand: %w", err)
	}
	rows, _ := results.Query() // the collector reports this error too
	taken, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return nil, false, fmt.Errorf("hand: take: %w", err)
	}
	rows, _ = results.Query()
	hands, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Hand, error) {
		h := Hand{Token: token, Lease: newLease(begun, l.times)}
		h.Channel, h.State = Email, Handed
		var booking *string
		err := row.Scan(&h.Key, &booking, &h.Kind, &h.Version, &h.StartVersion, &h.Role, &h.Copy, &h.Urgency, &h.DueAt,
			&h.Facts, &h.CreatedAt, &h.HandedAt, &h.Attempts, &h.Unknowns, &h.Late, &h.FirstNews, &h.N,
			&h.ResourceName, &h.HostAddress, &h.Customer, &h.Name, &h.Address, &h.Locale, &h.Note,
			&h.Endpoint, &h.EndpointURL, &h.EndpointAbout)
		if booking != nil {
			h.Booking = *booking
		}
		return h, err
	})
	if err != nil {
		return nil, false, fmt.Errorf("hand: read: %w", err)
	}
	if err := results.Close(); err != nil { // commits
		return nil, false, fmt.Errorf("hand: %w", err)
	}
	more := len(taken) > len(hands) || len(taken) > 0 && taken[0] >= n // each tells how many were claimed
	return hands, more, nil
}
