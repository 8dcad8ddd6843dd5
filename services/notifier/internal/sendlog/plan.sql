-- $1 messages as JSON, $2 late
insert into notifier.send_log (
    key, channel, booking, kind, version, start_version, role, endpoint, copy, urgency, state, reason, due_at, payload)
select m.key, m.channel, m.booking, m.kind, m.version, m.start_version, m.role, m.endpoint, m.copy,
       case when m.due_at < clock_timestamp() - $2::interval then 3 else m.urgency end,
       m.state, m.reason,
       -- Behind a quiet time that is running the row would only stand in the way.
       greatest(m.due_at, (
           select max(q.quiet_until)
           from notifier.send_log q
           where q.booking = m.booking
             and q.role = m.role
             and q.key <> m.key
             and q.quiet_until > clock_timestamp())),
       m.payload
from json_to_recordset($1) as m (
    key text, channel text, booking uuid, kind text, version bigint, start_version bigint, role text, endpoint text,
    copy integer, urgency smallint, state text, reason text, due_at timestamptz, payload jsonb)
order by m.key
on conflict (key) do nothing
returning key
