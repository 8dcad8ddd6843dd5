-- $1 keys, $2 tokens, $3 outcomes, $4 answers, $5 waits; $6 waits after a 4xx, $7 max attempts,
-- $8 give up, $9 max unknowns, $10 quiet, $11 addresses that refused for good ('': none)
with mine as materialized (
    select s.key, r.token, r.outcome, r.answer, r.wait, r.gone, s.attempts, s.first_4xx_at, s.unknowns, s.accepted_at,
           s.handed_at + $10::interval as quiet_until,
           case r.outcome
               when 'again' then
                   case when s.attempts + 1 >= $7 or s.first_4xx_at <= clock_timestamp() - $8::interval then 'held' else 'planned' end
               when 'unknown' then case when s.unknowns + 1 >= $9 then 'held' else 'unknown' end
               when 'lost' then 'planned'
               else r.outcome
           end as next
    from unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::interval[], $11::text[]) as r (key, token, outcome, answer, wait, gone)
    join notifier.send_log s on s.key = r.key and s.token = r.token and s.state = 'handed'
    order by s.key
    for no key update of s),
written as (
    update notifier.send_log s
    set state = case when m.accepted_at is not null then 'sent' else m.next end,
        accepted_at = case when m.next = 'sent' then coalesce(m.accepted_at, clock_timestamp()) else m.accepted_at end,
        reason = case
            when m.next = 'sent' or m.accepted_at is not null then null
            when m.outcome = 'again' and m.next = 'held' then left('too many tries: ' || m.answer, 1024)
            when m.outcome = 'unknown' and m.next = 'held' then 'too often no answer after the final dot'
            else m.answer
        end,
        attempts = m.attempts + case m.outcome when 'again' then 1 else 0 end,
        first_4xx_at = case m.outcome when 'again' then coalesce(m.first_4xx_at, clock_timestamp()) else m.first_4xx_at end,
        urgency = case m.outcome when 'again' then 3 else s.urgency end,
        unknowns = m.unknowns + case m.outcome when 'unknown' then 1 else 0 end,
        quiet_until = case m.outcome when 'unknown' then greatest(s.quiet_until, m.quiet_until) else s.quiet_until end,
        due_at = case m.outcome
            when 'again' then clock_timestamp() + ($6::interval[])[least(m.attempts + 1, cardinality($6::interval[]))]
            when 'lost' then clock_timestamp() + m.wait
            when 'unknown' then greatest(s.quiet_until, m.quiet_until)
            else s.due_at
        end,
        lease_until = null
    from mine m
    where s.key = m.key
    returning s.key, m.token),
suppressed as (
    insert into notifier.suppressions (address, reason, key)
    select lower(m.gone collate "C"), m.answer, m.key
    from mine m
    where m.gone <> ''
    order by 1
    on conflict do nothing),
ended as (
    update notifier.hands h
    set ended_at = clock_timestamp(),
        outcome = case when m.outcome = 'unknown' then 'unknown' else m.next end,
        unknown = m.outcome = 'unknown',
        answer = m.answer
    from mine m
    where h.key = m.key and h.token = m.token)
select key, token::text from written
