package sendlog

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Lease is how long a hand stands, by this process's own clocks. It counts from before the
// hand was sent to PostgreSQL, so it is over here before it is over there, however slow the
// way was and whether or not this process was frozen meanwhile.
type Lease struct {
	begun time.Time // with both clocks
	limit time.Duration

	mu   sync.Mutex
	left time.Duration // from begun; 0 once the lease is known to be lost
}

func newLease(begun time.Time, t Times) *Lease {
	return &Lease{begun: begun, limit: t.Cap, left: t.Lease}
}

// Over reports whether the lease is over at now: by the monotonic clock, which a suspended
// machine stops, or by the wall clock, which somebody may set.
func (l *Lease) Over(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Since(now) >= l.left
}

// Since is the time since the hand began, by that clock which says more.
func (l *Lease) Since(now time.Time) time.Duration {
	return max(now.Sub(l.begun), now.Round(0).Sub(l.begun.Round(0)))
}

// Begun is when the hand began; it has both clocks.
func (l *Lease) Begun() time.Time { return l.begun }

// renewed notes that PostgreSQL has extended the lease by term, asked for at the time asked.
func (l *Lease) renewed(asked time.Time, term time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left > 0 {
		l.left = max(l.left, min(l.Since(asked)+term, l.limit))
	}
}

// lose notes that the row is not in this hand any more.
func (l *Lease) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = 0
}

const renewSQL = `
	update notifier.send_log s
	set lease_until = greatest(s.lease_until, least(clock_timestamp() + $3::interval, s.handed_at + $4::interval))
	from (
		select s.key
		from unnest($1::text[], $2::uuid[]) as h (key, token)
		join notifier.send_log s on s.key = h.key and s.token = h.token and s.state = 'handed'
		order by s.key
		for no key update of s) mine
	where s.key = mine.key
	returning s.key, s.token::text`

// Renew extends the leases of hands by [Times.Lease] from now, never beyond their cap. A
// hand that has lost its row loses its lease too.
func (l *Log) Renew(ctx context.Context, hands []Hand) error {
	var keys, tokens []string
	for _, h := range hands {
		keys, tokens = append(keys, h.Key), append(tokens, h.Token)
	}
	asked := time.Now()
	mine, err := l.names(ctx, renewSQL, keys, tokens, l.times.Lease, l.times.Cap)
	if err != nil {
		return fmt.Errorf("renew leases: %w", err)
	}
	for _, h := range hands {
		if mine[name{h.Key, h.Token}] {
			h.Lease.renewed(asked, l.times.Lease)
		} else {
			h.Lease.lose()
		}
	}
	return nil
}
