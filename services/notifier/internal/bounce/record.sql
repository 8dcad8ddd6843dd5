-- $1 keys, the most certain first; $2 hard; $3 words; $4 address that bounced ('': not told);
-- $5 whether it did for good
with named as (
    select k.key
    from unnest($1::text[]) with ordinality as k (key, n)
    join notifier.send_log s on s.key = k.key
    where s.channel = 'email' and exists (select from notifier.hands h where h.key = k.key offset 0)
    order by k.n
    limit 1),
about as materialized (
    select s.key, s.booking, s.role, s.version, s.state, s.reason, s.bounced_at
    from notifier.send_log s
    where s.key = (select key from named)
    for no key update),
noted as (
    update notifier.send_log s
    set bounced_at = case when $2::boolean then clock_timestamp() end,
        -- What was refused or held after all, or skipped, keeps its own reason.
        reason = case
            when a.state in ('refused', 'held', 'skipped') then s.reason
            else case when $2 then 'bounced: ' else 'delayed: ' end || $3::text
        end
    from about a
    where s.key = a.key
      and a.bounced_at is null
      and ($2 or a.state = 'sent' and a.reason is distinct from 'delayed: ' || $3)
    returning s.key, s.booking, s.role, s.version),
suppressed as (
    insert into notifier.suppressions (address, reason, key)
    select lower(t.address collate "C"), $3, n.key
    from noted n
    join booking.for_notifier b on b.booking = n.booking
    cross join lateral (select case n.role when 'host' then b.host_address else b.address end as address) t
    where $5::boolean and t.address is not null
      and case
              when $4::text <> '' then lower(t.address collate "C") = lower($4 collate "C")
              else n.role = 'customer' and b.told_customer <= n.version
          end
    on conflict do nothing)
select a.key, exists (select from noted) from about a
