-- $1 overdue, $2 late. One partial index for each branch: closed rows cost nothing.
select w.state, count(*), count(*) filter (where w.overdue), count(*) filter (where w.overdue and w.late)
from (
    select s.state, s.due_at < now() - $2::interval as late,
           s.due_at < now() - $1::interval
           and not exists (
               select from notifier.send_log q
               where q.booking = s.booking and q.role = s.role and q.key <> s.key
                 and q.quiet_until is not null and q.quiet_until > now()
               offset 0)
           and not exists (
               select from notifier.switches p
               where p.name = case s.channel when 'email' then 'mail' else 'webhooks' end and p.paused)
           and not (s.channel = 'webhook' and exists (
               select from notifier.endpoints e
               where e.id = s.endpoint and (not e.enabled or e.failing_since is not null or e.rate is not null)
               offset 0)) as overdue
    from notifier.send_log s
    where s.state in ('planned', 'unknown')
    union all
    select s.state, s.due_at < now() - $2::interval, s.due_at < now() - $1::interval
    from notifier.send_log s
    where s.state = 'handed' and s.lease_until is not null
    union all
    select s.state, false, false
    from notifier.send_log s
    where s.state in ('held', 'refused')) w
group by w.state
