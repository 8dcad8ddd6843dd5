-- What an operator may do with messages, and what they see of them. The ops endpoints call
-- these functions; psql can, when NATS is away:
--
--   select * from notifier.list();                                        -- what waits for a person
--   select notifier.pause('mail', 'anna');
--   select notifier.release('{"reason": "catch-up", "limit": 10}', 'anna');
--   begin; select notifier.discard('{"kind": "reminder"}', 'anna'); rollback;   -- a dry run
--
-- Every change is recorded in notifier.operations by the transaction that makes it. Only the
-- steps of internal/sendlog/doc.go are taken: what is in hand is never touched.

create view notifier.messages as
select s.key,
       s.channel,
       s.booking,
       s.kind,
       s.version,
       s.start_version,
       s.role,
       s.endpoint,
       s.copy,
       s.urgency,
       s.state,
       s.reason,
       s.created_at,
       s.due_at,
       s.handed_at,
       s.lease_until,
       s.quiet_until,
       s.accepted_at,
       s.attempts,
       s.first_4xx_at,
       s.unknowns,
       coalesce(h.n, 0) as tries,
       h.answer,
       h.ended_at       as answered_at
from notifier.send_log s
left join lateral (
    select h.n, h.answer, h.ended_at
    from notifier.hands h
    where h.key = s.key
    order by h.n desc
    limit 1) h on true;
comment on view notifier.messages is 'the send log with the last hand of each message; no payload, no person';

create view notifier.overdue as
select m.*
from notifier.messages m
where m.due_at < now() - interval '5 minutes'
  and (m.state = 'handed' and m.lease_until is not null
       or m.state in ('planned', 'unknown')
          and not exists (
              select from notifier.send_log q
              where q.booking = m.booking and q.role = m.role and q.key <> m.key
                and q.quiet_until is not null and q.quiet_until > now()
              offset 0)
          and not exists (
              select from notifier.switches w
              where w.paused and w.name = case m.channel when 'email' then 'mail' when 'webhook' then 'webhooks' end));
comment on view notifier.overdue is 'past due by five minutes, not behind a quiet time or a switch: what slotwise_messages_overdue counts';

-- Serves lists by time of what is sent or skipped; the open states have indexes of their own.
create index send_log_age on notifier.send_log using brin (created_at);

create type notifier.filter as (
    keys    text[],
    states  text[],
    reason  text,
    kind    text,
    channel text,
    role    text,
    booking uuid,
    since   timestamptz,
    until   timestamptz,
    "limit" integer
);
comment on type notifier.filter is 'what a message must be; a field that is null does not matter. '
    'reason: a part of it, in any case, % and _ as in LIKE; since and until: when it was planned, half-open; limit: the oldest so many';

-- A field with a wrong name must not be overlooked: the rest would match more than was meant.
create function notifier.read_filter(filter jsonb) returns notifier.filter
language plpgsql stable as $$
declare
    wrong  text;
    result notifier.filter;
begin
    if jsonb_typeof(filter) is distinct from 'object' then
        raise exception 'the filter is no JSON object' using errcode = 'invalid_parameter_value';
    end if;
    select string_agg(f, ', ') into wrong
    from jsonb_object_keys(filter) f
    where f <> all (array['keys', 'states', 'reason', 'kind', 'channel', 'role', 'booking', 'since', 'until', 'limit']);
    if wrong is not null then
        raise exception 'the filter has unknown fields: %', wrong using errcode = 'invalid_parameter_value';
    end if;
    result := jsonb_populate_record(null::notifier.filter, filter);
    result.reason := nullif(result.reason, '');
    select string_agg(coalesce(s, 'null'), ', ') into wrong
    from unnest(result.states) s
    where s is null or s <> all (array['planned', 'handed', 'sent', 'refused', 'unknown', 'held', 'skipped']);
    if wrong is not null then
        raise exception 'unknown states: %', wrong using errcode = 'invalid_parameter_value';
    end if;
    if result."limit" < 1 then
        raise exception 'the limit is less than 1' using errcode = 'invalid_parameter_value';
    end if;
    return result;
end
$$;

-- The keys of messages that are in one of the states and match the filter, the oldest first.
-- Planned with the values known, so that a state finds its partial index; only with a closed
-- state asked for may it have to read the whole log, when nothing else narrows it.
create function notifier.matching(filter jsonb, states text[], after text default null, most integer default null) returns setof text
language plpgsql stable set plan_cache_mode = force_custom_plan as $$
declare
    f      notifier.filter := notifier.read_filter(filter);
    closed boolean := states && array['sent', 'skipped'];
    start  timestamptz;
begin
    if after is not null then
        select s.created_at into start from notifier.send_log s where s.key = after;
        if not found then
            raise exception 'there is no message % to go on after', after using errcode = 'invalid_parameter_value';
        end if;
    end if;
    return query
    select s.key
    from notifier.send_log s
    where s.state = any (states)
      and (s.state in ('held', 'refused')
           or s.state in ('planned', 'unknown')
           or s.state = 'handed' and s.lease_until is not null
           or s.state in ('sent', 'skipped') and closed)
      and (f.keys is null or s.key = any (f.keys))
      and (f.states is null or s.state = any (f.states))
      and (f.reason is null or s.reason ilike '%' || f.reason || '%')
      and (f.kind is null or s.kind = f.kind)
      and (f.channel is null or s.channel = f.channel)
      and (f.role is null or s.role = f.role)
      and (f.booking is null or s.booking = f.booking)
      and (f.since is null or s.created_at >= f.since)
      and (f.until is null or s.created_at < f.until)
      and (after is null or (s.created_at, s.key) > (start, after))
    order by s.created_at, s.key
    limit least(most, f."limit");
end
$$;

-- Lists messages, the oldest first, at most most of them; the next page comes after the last
-- key of this one. Without states, keys or a booking: those that wait for a person.
create function notifier.list(filter jsonb default '{}', after text default null, most integer default 100) returns setof notifier.messages
language plpgsql stable as $$
declare
    f notifier.filter := notifier.read_filter(filter);
begin
    return query
    select m.*
    from notifier.matching(filter, case
        when f.states is not null then f.states
        when f.keys is null and f.booking is null then array['held', 'refused']
        else array['planned', 'handed', 'sent', 'refused', 'unknown', 'held', 'skipped']
    end, after, most) with ordinality found (key, n)
    join notifier.messages m on m.key = found.key
    order by found.n;
end
$$;

-- The keys of messages to change, locked in key order, as everybody locks them. A change must
-- say what it is about: an empty filter is refused.
create function notifier.chosen(filter jsonb, states text[]) returns setof text
language plpgsql as $$
declare
    f notifier.filter := notifier.read_filter(filter);
begin
    f."limit" := null;
    if f is null then
        raise exception 'the filter is empty: name keys, states, a reason, a kind, a booking or a time' using errcode = 'invalid_parameter_value';
    end if;
    return query
    select s.key
    from notifier.send_log s
    where s.key = any (array(select notifier.matching(filter, states)))
      -- Asked again of a row that somebody else has changed while this waited for its lock.
      and s.state = any (states)
      and (f.states is null or s.state = any (f.states))
    order by s.key
    for no key update of s;
end
$$;

create function notifier.record(operation text, arguments jsonb, operator text, affected bigint) returns void
language sql as $$
    insert into notifier.operations (operator, operation, arguments, affected) values (operator, operation, arguments, affected)
$$;

-- What an operator plans again goes last, so that it never delays a fresh mail, and not before
-- its slot's quiet times have ended.
create function notifier.plan_again(filter jsonb, states text[], fresh boolean) returns setof text
language sql as $$
    update notifier.send_log s
    set state = 'planned',
        reason = null,
        urgency = 3,
        due_at = greatest(clock_timestamp(), (
            select max(q.quiet_until)
            from notifier.send_log q
            where q.booking = s.booking and q.role = s.role and q.quiet_until is not null)),
        attempts = case when fresh then 0 else s.attempts end,
        first_4xx_at = case when fresh then null else s.first_4xx_at end
    from notifier.chosen(filter, states) c (key)
    where s.key = c.key
    returning s.key
$$;

create function notifier.release(filter jsonb, operator text) returns setof text
language plpgsql as $$
declare
    n bigint;
begin
    return query select notifier.plan_again(filter, array['held'], false);
    get diagnostics n = row_count;
    perform notifier.record('release', filter, operator, n);
end
$$;
comment on function notifier.release is 'plans held messages again as they are: one that has used up its tries is held again at the next failure. Returns their keys';

create function notifier.retry(filter jsonb, operator text) returns setof text
language plpgsql as $$
declare
    n bigint;
begin
    return query select notifier.plan_again(filter, array['held', 'refused'], true);
    get diagnostics n = row_count;
    perform notifier.record('retry', filter, operator, n);
end
$$;
comment on function notifier.retry is 'plans held and refused messages again, with all their tries. Returns their keys';

create function notifier.discard(filter jsonb, operator text) returns setof text
language plpgsql as $$
declare
    n bigint;
begin
    return query
    update notifier.send_log s
    set state = 'skipped', reason = 'discarded by ' || operator
    from notifier.chosen(filter, array['planned', 'unknown', 'held', 'refused']) c (key)
    where s.key = c.key
    returning s.key;
    get diagnostics n = row_count;
    perform notifier.record('discard', filter, operator, n);
end
$$;
comment on function notifier.discard is 'skips messages that are not sent yet and not in hand, for good. Returns their keys';

-- The mail of the present state is a copy of the one that was last owed, with an id of its own
-- (pkg/id: -c2, -c3 …). None is planned while one of that version is still on its way.
create function notifier.resend(filter jsonb, operator text) returns setof text
language plpgsql as $$
declare
    n bigint;
begin
    return query
    with asked as (
        select distinct s.booking, s.role
        from notifier.chosen(filter, array['sent', 'refused', 'skipped']) c (key)
        join notifier.send_log s on s.key = c.key
        where s.kind in ('confirm', 'move', 'cancel', 'reminder')),
    present as (
        select a.booking,
               a.role,
               case b.status when 'cancelled' then 'cancel' else 'confirm' end as kind,
               case a.role when 'host' then b.told_host else b.told_customer end as version,
               b.start_version,
               jsonb_build_object(
                   'status', b.status, 'resource', b.resource, 'zone', b.zone, 'seats', b.seats,
                   'start', to_char(b.starts_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                   'end', to_char(b.ends_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) as facts
        from asked a
        join booking.for_notifier b on b.booking = a.booking
        where b.customer is not null),
    next as (
        select p.*, 1 + greatest(1, max(s.copy)) as copy
        from present p
        left join notifier.send_log s on s.booking = p.booking and s.role = p.role and s.version = p.version and s.kind in ('confirm', 'move', 'cancel')
        where p.version > 0
        group by p.booking, p.role, p.kind, p.version, p.start_version, p.facts
        having count(*) filter (where s.state in ('planned', 'handed', 'unknown')) = 0)
    insert into notifier.send_log as t (key, channel, booking, kind, version, start_version, role, copy, urgency, state, due_at, payload)
    select format('email-%s-%s-v%s%s-c%s', x.kind, x.booking, x.version, case x.role when 'host' then '-host' end, x.copy),
           'email', x.booking, x.kind, x.version, x.start_version, x.role, x.copy, 3, 'planned',
           greatest(clock_timestamp(), (
               select max(q.quiet_until)
               from notifier.send_log q
               where q.booking = x.booking and q.role = x.role and q.quiet_until is not null)),
           x.facts
    from next x
    order by 1
    on conflict on constraint send_log_pkey do nothing
    returning t.key;
    get diagnostics n = row_count;
    perform notifier.record('resend', filter, operator, n);
end
$$;
comment on function notifier.resend is 'plans the mail of the present state once more to whom the messages were for. Returns the keys of the new ones';

create function notifier.switch(name text, to_paused boolean, operator text) returns boolean
language plpgsql as $$
declare
    changed boolean;
begin
    update notifier.switches w
    set paused = to_paused, changed_at = clock_timestamp(), changed_by = operator
    where w.name = switch.name and w.paused <> to_paused;
    changed := found;
    if not changed and not exists (select from notifier.switches w where w.name = switch.name) then
        raise exception 'there is no switch %: mail and webhooks are', name using errcode = 'invalid_parameter_value';
    end if;
    perform notifier.record(case when to_paused then 'pause' else 'resume' end, jsonb_build_object('switch', name), operator, changed::integer);
    return changed;
end
$$;

create function notifier.pause(name text, operator text) returns boolean
language sql as $$ select notifier.switch(name, true, operator) $$;
comment on function notifier.pause is 'mail or webhooks: nothing more is handed, by any notifier, until resume. False: it was paused already';

create function notifier.resume(name text, operator text) returns boolean
language sql as $$ select notifier.switch(name, false, operator) $$;
comment on function notifier.resume is 'ends a pause. False: there was none';

revoke execute on all functions in schema notifier from public;
grant execute on all functions in schema notifier to slotwise_notifier;
grant select on notifier.messages, notifier.overdue to slotwise_notifier;
