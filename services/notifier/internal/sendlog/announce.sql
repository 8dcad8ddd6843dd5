-- $1 events as JSON. One row an endpoint that was there before the event, is not deleted and wants it.
with wanting as materialized (
    -- Shared, so that who disables or deletes one waits for these rows, or these rows for them.
    select e.id, e.enabled, e.event_types, e.resources, e.created_at
    from notifier.endpoints e
    where e.deleted_at is null
    order by e.id
    for share),
owed as materialized (
    select 'webhook-' || m.event || '-' || w.id as key, w.id as endpoint, w.enabled, m.booking, m.version, m.at, m.body
    from json_to_recordset($1) as m (event text, type text, booking uuid, resource text, version bigint, at timestamptz, body text)
    join wanting w on w.created_at < m.at
                  and (w.event_types is null or m.type = any (w.event_types))
                  and (w.resources is null or m.resource = any (w.resources)))
insert into notifier.send_log (key, channel, booking, kind, version, endpoint, urgency, state, reason, due_at, payload)
select o.key, 'webhook', o.booking, 'webhook', o.version, o.endpoint, 0,
       case when o.enabled then 'planned' else 'held' end,
       case when not o.enabled then 'endpoint disabled' end,
       o.at, jsonb_build_object('event', o.body)
from owed o
-- Nearly all that the audit brings is there: to look is a tenth of the cost.
where not exists (select from notifier.send_log s where s.key = o.key offset 0)
order by o.key
on conflict (key) do nothing
returning key
