package sendlog

import (
	"context"
	"fmt"
)

const forgetSQL = `
	with old as materialized (
		select s.key
		from notifier.send_log s
		where s.created_at < now() - interval '90 days'
		  and (s.state in ('sent', 'skipped', 'refused') or s.state = 'held' and s.channel = 'webhook')
		  and not exists (
		      select from booking.for_notifier b
		      where b.booking = s.booking and b.ends_at > now() - interval '30 days'
		      offset 0)
		limit 1000
		for update of s skip locked)
	delete from notifier.send_log s
	using old
	where s.key = old.key`

// Forget deletes closed rows, and their hands, that are 90 days old and whose booking ended 30
// days ago; at most 1000, and returns how many. Those times are longer than the stream and the
// outbox keep events: what is planned again from there must find its row, or it would be sent
// again. Webhooks that are held go too: an endpoint that is off may be told for ever.
func (l *Log) Forget(ctx context.Context) (int, error) {
	tag, err := l.pool.Exec(ctx, forgetSQL)
	if err != nil {
		return 0, fmt.Errorf("forget old messages: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
