-- $1 token, $2 catch-up limit, $3 late
with taken as materialized (
    select s.key, s.kind, s.version, s.start_version, s.role, s.booking, s.copy, s.urgency, s.reason, s.due_at, s.created_at,
           s.handed_at, s.attempts, s.unknowns, s.payload,
           b.resource_name, coalesce(b.host_address, e.owner) as host_address, b.customer, b.name, b.address, b.locale, b.note,
           s.endpoint, e.url, e.description,
           case
               when s.accepted_at is not null then 'accepted'
               when s.booking is null and s.endpoint is null then null
               when s.booking is null and e.owner is null then 'useless: the endpoint is deleted'
               when s.booking is not null and b.customer is null then 'erased'
               when s.role = 'host' and s.booking is not null and b.host_address is null then 'useless: the resource has no host'
               when s.kind in ('confirm', 'move', 'cancel') and s.version < case s.role when 'host' then b.told_host else b.told_customer end
                   then 'superseded by v' || case s.role when 'host' then b.told_host else b.told_customer end
               when s.kind = 'reminder' and (b.status <> 'confirmed' or b.start_version <> s.start_version) then 'stale start'
               when s.kind in ('confirm', 'notice') and b.ends_at <= clock_timestamp() then 'useless: the booking has ended'
               when s.kind = 'reminder' and b.starts_at <= clock_timestamp() then 'useless: the booking has begun'
               when s.kind = 'notice' and exists (
                   select from notifier.send_log a
                   where a.key = s.payload ->> 'about' and a.state = 'sent' and a.bounced_at is null
                   offset 0) then 'useless: the mail was accepted after all'
               else (
                   select left('suppressed: ' || u.reason, 900) || ' since ' || to_char(u.since at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS"Z"')
                   from notifier.suppressions u
                   where u.address = lower(case s.role when 'host' then coalesce(b.host_address, e.owner) else b.address end collate "C"))
           end as verdict,
           s.due_at < clock_timestamp() - $2::interval as outdated,
           (
               select max(q.quiet_until)
               from notifier.send_log q
               where q.booking = s.booking and q.role = s.role and q.key <> s.key
                 and q.quiet_until is not null and q.quiet_until > clock_timestamp()) as quiet_until,
           s.kind = 'move' and not exists (
               select from notifier.send_log c
               where c.booking = s.booking and c.role = s.role and c.key <> s.key and c.kind in ('confirm', 'move')
                 and (c.state = 'sent' and c.bounced_at is null or c.unknowns > 0)) as first_news
    from notifier.send_log s
    left join booking.for_notifier b on b.booking = s.booking
    left join notifier.endpoints e on e.id = s.endpoint -- of its owner's notice
    where s.token = $1 and s.state = 'handed' and s.lease_until is not null),
closed as (
    update notifier.send_log s
    set state = case
            when t.verdict = 'accepted' then 'sent'
            when t.verdict like 'suppressed: %' then 'refused'
            when t.verdict is not null then 'skipped'
            when t.outdated then 'held'
            when s.unknowns > 0 then 'unknown'
            else 'planned'
        end,
        reason = case
            when t.verdict = 'accepted' then null
            when t.verdict is not null then t.verdict
            when t.outdated then 'older than the catch-up limit'
            else s.reason
        end,
        due_at = case when t.verdict is null and not t.outdated then t.quiet_until else s.due_at end,
        token = null,
        handed_at = null,
        lease_until = null
    from taken t
    where s.key = t.key
      and (t.verdict is not null or t.outdated or t.quiet_until is not null)),
counted as (
    insert into notifier.hands (key, token, n, handed_at)
    select t.key, $1, 1 + coalesce((select h.n from notifier.hands h where h.key = t.key order by h.n desc limit 1), 0), t.handed_at
    from taken t
    where t.verdict is null and not t.outdated and t.quiet_until is null
    returning key, n)
select t.key, t.booking::text, t.kind, coalesce(t.version, 0), coalesce(t.start_version, 0), t.role, t.copy, t.urgency, t.due_at,
       t.payload, t.created_at, t.handed_at, t.attempts, t.unknowns, t.due_at <= now() - $3::interval, t.first_news, c.n,
       coalesce(t.resource_name, ''), coalesce(t.host_address, ''), coalesce(t.customer::text, ''), coalesce(t.name, ''), coalesce(t.address, ''),
       coalesce(t.locale, ''), coalesce(t.note, ''),
       coalesce(t.endpoint, ''), coalesce(t.url, ''), coalesce(t.description, '')
from counted c
join taken t on t.key = c.key
