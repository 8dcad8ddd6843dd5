-- $1 how many more may go to endpoints that fail. In how many seconds something may be handed; null: nothing
-- waits but for a result.
with busy as materialized (
    select s.endpoint, count(*) as n
    from notifier.send_log s
    where s.state = 'handed' and s.lease_until is not null and s.channel = 'webhook'
    group by s.endpoint)
select extract(epoch from min(greatest(d.due_at, p.next_at)) - clock_timestamp())::float8
from notifier.endpoints e
left join busy b on b.endpoint = e.id
left join notifier.endpoint_pace p on p.endpoint = e.id
cross join lateral (
    select s.due_at
    from notifier.send_log s
    where s.channel = 'webhook' and s.endpoint = e.id and s.state in ('planned', 'unknown')
    order by s.due_at
    limit 1) d
where e.enabled
  and (e.failing_since is null or $1::bigint > 0)
  and e.concurrency > coalesce(b.n, 0)
  and not exists (select from notifier.switches w where w.name = 'webhooks' and w.paused)
