-- $1 how long after remind_at at most, $2 how many bookings
select b.booking::text,
       b.version,
       b.start_version,
       b.status,
       b.starts_at,
       b.ends_at,
       b.remind_at,
       b.seats,
       b.resource,
       b.zone
from booking.for_notifier b
where tstzrange(b.remind_at, b.starts_at) @> now()
  and b.remind_at is not null
  and b.status = 'confirmed'
  and b.remind_at <= now() - least($1::interval, (b.starts_at - b.remind_at) / 4)
  -- "offset 0" keeps this a probe for each booking of the window: as a join it would read the
  -- whole send log.
  and not exists (
      select from notifier.send_log s
      where s.booking = b.booking and s.kind = 'reminder' and s.start_version = b.start_version
      offset 0)
limit $2
