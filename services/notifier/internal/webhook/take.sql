-- $1 token, $2 how many at most, $3 how many at most for endpoints that fail, $4 lease
with busy as materialized (
    select s.endpoint, count(*) as n
    from notifier.send_log s
    where s.state = 'handed' and s.lease_until is not null and s.channel = 'webhook'
    group by s.endpoint),
open as materialized (
    select e.id, e.failing_since is not null as failing, coalesce(b.n, 0) as busy,
           least($2::bigint, e.concurrency - coalesce(b.n, 0), case when e.rate is null then $2
               else 1 + floor(e.rate * extract(epoch from now() - greatest(p.next_at, now() - interval '1 second'))) end)::bigint as free
    from notifier.endpoints e
    left join busy b on b.endpoint = e.id
    left join notifier.endpoint_pace p on p.endpoint = e.id
    where e.enabled
      and (p.next_at is null or p.next_at <= now())
      and not exists (select from notifier.switches w where w.name = 'webhooks' and w.paused)),
found as materialized (
    -- An endpoint's nth place comes after everybody's places before: who has much in hand waits.
    select d.key, d.due_at, o.failing, o.busy + row_number() over (partition by o.id order by d.due_at) as place
    from open o
    cross join lateral (
        select s.key, s.due_at
        from notifier.send_log s
        where s.channel = 'webhook' and s.endpoint = o.id and s.state in ('planned', 'unknown') and s.due_at <= now()
        order by s.due_at
        limit greatest(o.free, 0)) d),
chosen as materialized (
    select t.key
    from (
        select f.key, f.due_at, f.place, f.failing, row_number() over (partition by f.failing order by f.place, f.due_at) as turn
        from found f) t
    where not t.failing or t.turn <= $3::bigint
    order by t.place, t.due_at
    limit $2),
claimed as materialized (
    select d.key, d.endpoint
    from chosen c
    cross join lateral ( -- one by one by their keys; as a join it may go through all that waits
        select s.key, s.endpoint
        from notifier.send_log s
        where s.key = c.key and s.state in ('planned', 'unknown')
        for no key update of s skip locked) d),
paced as (
    insert into notifier.endpoint_pace as p (endpoint, next_at)
    select e.id, now() - interval '1 second' + count(*) * interval '1 second' / e.rate
    from claimed c
    join notifier.endpoints e on e.id = c.endpoint
    where e.rate is not null
    group by e.id
    order by e.id
    on conflict (endpoint) do update
    set next_at = greatest(p.next_at, now() - interval '1 second') + (excluded.next_at - (now() - interval '1 second')))
update notifier.send_log s
set state = 'handed',
    token = $1,
    handed_at = clock_timestamp(),
    lease_until = clock_timestamp() + $4::interval
from claimed c
where s.key = c.key
