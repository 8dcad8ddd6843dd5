-- $1 token, $2 how many at most, $3 how many late ones of each urgency, $4 lease, $5 late
with claimed as materialized (
    select d.*
    from (values
        (0, now() - $5::interval, now(), $2::bigint),
        (1, now() - $5::interval, now(), $2),
        (2, now() - $5::interval, now(), $2),
        (3, now() - $5::interval, now(), $2),
        (0, '-infinity', now() - $5::interval, $3::bigint),
        (1, '-infinity', now() - $5::interval, $3),
        (2, '-infinity', now() - $5::interval, $3),
        (3, '-infinity', now() - $5::interval, $3)) u (urgency, after, until, most)
    cross join lateral (
        select s.key, s.booking, s.role, s.version
        from notifier.send_log s
        where s.channel = 'email'
          and s.state in ('planned', 'unknown')
          and s.urgency = u.urgency
          and s.due_at > u.after
          and s.due_at <= u.until
          -- "offset 0" keeps these two probes: as joins they would read all slots and quiet times.
          and not exists (
              select from notifier.send_log h
              where h.booking = s.booking and h.role = s.role and h.state = 'handed' and h.channel = 'email'
              offset 0)
          and not exists (
              select from notifier.send_log q
              where q.booking = s.booking and q.role = s.role and q.key <> s.key
                and q.quiet_until is not null and q.quiet_until > now()
              offset 0)
        order by s.due_at
        limit u.most
        for no key update of s skip locked) d
    where not exists (select from notifier.switches w where w.name = 'mail' and w.paused)
    limit $2),
-- One row a slot, in one order, so that hands do not deadlock. The newest goes: the older
-- ones are then superseded.
chosen as materialized (
    select distinct on (coalesce(booking::text, key), role) key
    from claimed
    order by coalesce(booking::text, key), role, version desc nulls last)
update notifier.send_log s
set state = 'handed',
    token = $1,
    handed_at = clock_timestamp(),
    lease_until = clock_timestamp() + $4::interval
from chosen
where s.key = chosen.key
returning (select count(*) from claimed)
