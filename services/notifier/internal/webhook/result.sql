-- $1 keys, $2 tokens, $3 outcomes, $4 answers, $5 waits, $6 whether it was the last try. The endpoints are locked.
with mine as materialized (
    select s.key, r.token, r.outcome, r.answer, r.wait, s.accepted_at,
           case
               when r.outcome = 'sent' or s.accepted_at is not null then 'sent'
               when e.id is null or e.deleted_at is not null then 'skipped'
               when r.outcome = 'held' or r.outcome = 'again' and r.last or not e.enabled then 'held'
               when r.outcome = 'unknown' then 'unknown'
               else 'planned'
           end as next,
           case
               when r.outcome = 'sent' or s.accepted_at is not null then null
               when e.id is null or e.deleted_at is not null then 'endpoint deleted'
               when r.outcome = 'held' then r.answer
               when not e.enabled then 'endpoint disabled'
               when r.outcome = 'again' and r.last then left('too many tries: ' || r.answer, 1024)
               else r.answer
           end as reason
    from unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::interval[], $6::boolean[]) as r (key, token, outcome, answer, wait, last)
    join notifier.send_log s on s.key = r.key and s.token = r.token and s.state = 'handed'
    left join notifier.endpoints e on e.id = s.endpoint
    order by s.key
    for no key update of s),
written as (
    update notifier.send_log s
    set state = m.next,
        reason = m.reason,
        accepted_at = case when m.next = 'sent' then coalesce(m.accepted_at, clock_timestamp()) else m.accepted_at end,
        attempts = s.attempts + case when m.outcome in ('again', 'gone') then 1 else 0 end,
        unknowns = s.unknowns + case m.outcome when 'unknown' then 1 else 0 end,
        due_at = case
            when m.outcome in ('again', 'gone', 'lost') then clock_timestamp() + m.wait
            when m.outcome = 'unknown' then clock_timestamp()
            else s.due_at
        end,
        lease_until = null
    from mine m
    where s.key = m.key
    returning s.key, m.token),
ended as (
    update notifier.hands h
    set ended_at = clock_timestamp(),
        outcome = case
            when m.outcome in ('sent', 'unknown', 'held') then m.outcome
            when m.next = 'held' then 'held'
            else 'planned'
        end,
        unknown = m.outcome = 'unknown',
        answer = m.answer
    from mine m
    where h.key = m.key and h.token = m.token)
select key, token::text from written
