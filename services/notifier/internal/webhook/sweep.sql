-- Deliveries whose sender did not answer for them: due again at once.
with over as materialized (
    select s.key
    from notifier.send_log s
    where s.state = 'handed'
      and s.lease_until is not null
      and s.lease_until <= now()
      and s.channel = 'webhook'
    order by s.endpoint, s.lease_until -- as the index of these rows has them, which is then the one that is taken
    limit 500
    for no key update of s skip locked),
marked as (
    update notifier.send_log s
    set state = case when s.accepted_at is not null then 'sent' else 'unknown' end,
        reason = case when s.accepted_at is not null then null else 'the lease ended' end,
        unknowns = s.unknowns + 1,
        due_at = now(),
        lease_until = null
    from over
    where s.key = over.key
    returning s.key, s.token),
ended as (
    update notifier.hands h
    set ended_at = clock_timestamp(),
        outcome = 'unknown',
        unknown = true
    from marked m
    where h.key = m.key and h.token = m.token)
select count(*) from marked
