-- $1 keys, $2 tokens, $3 answers: 2xx answers whose token is no longer the row's
with late as materialized (
    select s.key, r.token, r.answer, s.state
    from unnest($1::text[], $2::uuid[], $3::text[]) as r (key, token, answer)
    join notifier.send_log s on s.key = r.key
    order by s.key
    for no key update of s),
written as (
    update notifier.send_log s
    set state = case when l.state in ('unknown', 'planned', 'held', 'refused') then 'sent' else l.state end,
        reason = case when l.state in ('unknown', 'planned', 'held', 'refused') then null else s.reason end,
        -- In another's hand the row is sent when that hand ends.
        accepted_at = coalesce(s.accepted_at, clock_timestamp())
    from late l
    where s.key = l.key and l.state <> 'sent')
update notifier.hands h
set outcome = 'sent',
    answer = l.answer
from late l
where h.key = l.key and h.token = l.token and h.ended_at is not null
