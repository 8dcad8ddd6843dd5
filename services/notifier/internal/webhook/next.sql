-- $1 how many more may go to endpoints that fail. In how many seconds something may be handed; null: nothing
-- waits but for a result.
select extract(epoch from min(greatest(d.due_at, p.next_at)) - clock_timestamp())::float8
from notifier.endpoints e
left join notifier.endpoint_pace p on p.endpoint = e.id
cross join lateral (
    select s.due_at
    from notifier.send_log s
    where s.channel = 'webhook' and s.endpoint = e.id and s.state in ('planned', 'unknown')
    order by s.due_at
    limit 1) d
where e.enabled
  and (e.failing_since is null or $1::bigint > 0)
  and e.concurrency > (
      select count(*)
      from notifier.send_log h
      where h.state = 'handed' and h.lease_until is not null and h.channel = 'webhook' and h.endpoint = e.id)
  and not exists (select from notifier.switches w where w.name = 'webhooks' and w.paused)
