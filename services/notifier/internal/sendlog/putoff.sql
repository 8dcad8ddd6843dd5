-- $1 keys of rows that were marked: nothing else of their slots is due before their quiet time
-- ends. Rows that somebody holds are left out; the claim looks at quiet times itself.
with off as materialized (
    select o.key, max(m.quiet_until) as quiet_until
    from notifier.send_log m
    join notifier.send_log o on o.booking = m.booking and o.role = m.role and o.key <> m.key
    where m.key = any ($1)
      and o.channel = 'email'
      and o.state in ('planned', 'unknown')
      and o.due_at < m.quiet_until
    group by o.key),
free as materialized (
    select s.key, off.quiet_until
    from off
    join notifier.send_log s on s.key = off.key
    where s.state in ('planned', 'unknown') and s.due_at < off.quiet_until
    order by s.key
    for no key update of s skip locked)
update notifier.send_log s
set due_at = free.quiet_until
from free
where s.key = free.key
