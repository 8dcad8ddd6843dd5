-- $1 endpoints, $2 whether one of the results was a success, $3 whether the last one was a failure, $4 whether one was a
-- 410, $5 how long an endpoint may only fail. Locks those that are about to change. The others are only shared,
-- by the statement that follows, with who plans webhooks for them: that must not wait for each result.
select e.id
from unnest($1::text[], $2::boolean[], $3::boolean[], $4::boolean[]) as r (id, good, bad, gone)
join notifier.endpoints e on e.id = r.id
where e.enabled
  and (r.gone
       or r.good and e.failing_since is not null
       or r.bad and e.failing_since is null
       or e.failing_since <= clock_timestamp() - $5::interval)
order by e.id
for no key update of e
