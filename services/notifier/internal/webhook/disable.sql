-- $1 endpoints, each once, $2 key and $3 number of the hand that failed, $4 its answer, $5 whether it was a 410, $6 how
-- long an endpoint may only fail. The notice's key is the hand's: one hand disables once.
with due as materialized (
    select e.id, r.key, r.n,
           left(case
               when r.gone then 'it has answered 410 Gone'
               else 'it has only failed since ' || to_char(e.failing_since at time zone 'UTC', 'YYYY-MM-DD HH24:MI"Z"') || ', at last with: ' || r.answer
           end, 900) as reason
    from unnest($1::text[], $2::text[], $3::integer[], $4::text[], $5::boolean[]) as r (id, key, n, answer, gone)
    join notifier.endpoints e on e.id = r.id
    where e.enabled and (r.gone or e.failing_since <= clock_timestamp() - $6::interval)
    order by e.id),
disabled as materialized (
    select d.id, d.key, d.n, d.reason, notifier.disable_endpoint(d.id, d.reason, 'notifier') as held
    from due d),
told as (
    insert into notifier.send_log (key, channel, kind, role, endpoint, urgency, state, due_at, payload)
    select 'notice-' || d.key || '-' || d.n, 'email', 'notice', 'host', d.id, 2, 'planned', clock_timestamp(), jsonb_build_object('why', d.reason)
    from disabled d
    where d.held is not null
    order by 1
    on conflict on constraint send_log_pkey do nothing)
select d.id, d.reason
from disabled d
where d.held is not null
