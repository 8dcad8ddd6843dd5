-- $1 token. This snapshot is younger than the take: what it says of an endpoint is true at the hand.
with taken as materialized (
    select s.key, s.copy, s.attempts, s.due_at, s.payload, s.handed_at, s.endpoint, e.url, e.failing_since is not null as failing,
           case
               when e.id is null or e.deleted_at is not null then 'endpoint deleted'
               when not e.enabled then 'endpoint disabled'
           end as verdict
    from notifier.send_log s
    left join notifier.endpoints e on e.id = s.endpoint
    where s.token = $1 and s.state = 'handed' and s.lease_until is not null),
closed as (
    update notifier.send_log s
    set state = case t.verdict when 'endpoint deleted' then 'skipped' else 'held' end,
        reason = t.verdict,
        token = null,
        handed_at = null,
        lease_until = null
    from taken t
    where s.key = t.key and t.verdict is not null),
counted as (
    insert into notifier.hands (key, token, n, handed_at)
    select t.key, $1, 1 + coalesce((select h.n from notifier.hands h where h.key = t.key order by h.n desc limit 1), 0), t.handed_at
    from taken t
    where t.verdict is null
    returning key, n)
select t.key, c.n, t.copy, t.attempts, t.due_at, t.payload, t.endpoint, coalesce(t.url, ''),
       array(
           select x.secret
           from notifier.endpoint_secrets x
           where x.endpoint = t.endpoint and (x.expires_at is null or x.expires_at > clock_timestamp())
           order by x.expires_at desc nulls first),
       t.failing
from counted c
join taken t on t.key = c.key
