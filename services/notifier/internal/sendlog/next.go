package sendlog

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const nextSQL = `
	select not exists (select from notifier.switches w where w.name = 'mail' and w.paused)
	       and exists (
	           select from (values (0), (1), (2), (3)) u (urgency)
	           cross join lateral (
	               select from notifier.send_log s
	               where s.channel = 'email' and s.state in ('planned', 'unknown') and s.urgency = u.urgency and s.due_at <= now()
	               order by s.due_at
	               limit 1) d),
	       (
	           select extract(epoch from min(d.due_at) - clock_timestamp())::float8
	           from (values (0), (1), (2), (3)) u (urgency)
	           cross join lateral (
	               select s.due_at from notifier.send_log s
	               where s.channel = 'email' and s.state in ('planned', 'unknown') and s.urgency = u.urgency and s.due_at > now()
	               order by s.due_at
	               limit 1) d)`

// Next reports whether an e-mail is due, and how long to wait until the next one will be, at
// most [Times.Poll]. What is due may stand behind a quiet time or another mail of its slot.
func (l *Log) Next(ctx context.Context) (due bool, wait time.Duration, err error) {
	var seconds *float64
	b := Batch()
	b.Queue(nextSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&due, &seconds) })
	if err := l.pool.SendBatch(ctx, b).Close(); err != nil {
		return false, 0, fmt.Errorf("look for due mails: %w", err)
	}
	wait = l.times.Poll
	if seconds != nil {
		wait = min(wait, max(0, time.Duration(*seconds*float64(time.Second))))
	}
	return due, wait, nil
}
