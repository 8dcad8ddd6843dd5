-- What waits and what is held, by endpoint; one partial index for each branch. Rows that wait only
-- because a switch is off count too.
select w.endpoint, count(*) filter (where not w.held), count(*) filter (where w.held)
from (
    select s.endpoint, false as held
    from notifier.send_log s
    where s.channel = 'webhook' and s.state in ('planned', 'unknown')
    union all
    select s.endpoint, true
    from notifier.send_log s
    where s.channel = 'webhook' and s.state = 'held') w
group by w.endpoint
