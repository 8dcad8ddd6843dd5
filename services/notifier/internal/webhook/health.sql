-- $1 endpoints, $2 whether one of the results was a success, $3 whether the last one was a failure, $4 how long
-- the endpoint has asked for rest (null: not)
with rested as (
    insert into notifier.endpoint_pace as p (endpoint, next_at)
    select r.id, clock_timestamp() + r.rest
    from unnest($1::text[], $4::interval[]) as r (id, rest)
    join notifier.endpoints e on e.id = r.id
    where r.rest is not null
    order by r.id
    on conflict (endpoint) do update set next_at = greatest(p.next_at, excluded.next_at))
update notifier.endpoints e
set failing_since = case when r.bad then clock_timestamp() end
from unnest($1::text[], $2::boolean[], $3::boolean[]) as r (id, good, bad)
where e.id = r.id
  and e.enabled
  and (r.good and e.failing_since is not null or r.bad and e.failing_since is null)
