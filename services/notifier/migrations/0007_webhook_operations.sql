-- What operators and the API do with endpoints, and what changes for webhooks in what operators do
-- with messages. With psql, when NATS is away:
--
--   select * from notifier.create_endpoint('{"url": "https://hooks.example/", "owner": "anna@example.org"}', 'anna');
--   select notifier.disable_endpoint('we_…', 'asked by its owner', 'anna');
--   select notifier.recover_endpoint('we_…', now() - interval '2 days', 'anna');
--
-- 55000 (object_not_in_prerequisite_state) says that it can't be done as things stand, P0002
-- (no_data_found) that there is no such endpoint or delivery.

-- 256 random bits: a version 4 UUID has 122 from PostgreSQL's strong source.
create function notifier.random_bytes() returns bytea
language sql volatile as $$
    select sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))
$$;

create function notifier.new_secret() returns text
language sql volatile as $$ select 'whsec_' || encode(notifier.random_bytes(), 'base64') $$;

create function notifier.new_endpoint_id() returns text
language sql volatile as $$
    select 'we_' || string_agg(substr('abcdefghijklmnopqrstuvwxyz234567', 1 + (get_byte(r.bytes, i) & 31), 1), '')
    from (select notifier.random_bytes() as bytes) r, generate_series(0, 15) i
$$;

create type notifier.endpoint_settings as (
    url         text,
    description text,
    owner       text,
    event_types text[],
    resources   text[],
    concurrency integer,
    rate        integer
);

create function notifier.create_endpoint(settings jsonb, operator text, out id text, out secret text)
language plpgsql as $$
declare
    wrong text;
    s     notifier.endpoint_settings;
begin
    if jsonb_typeof(settings) is distinct from 'object' then
        raise exception 'the settings are no JSON object' using errcode = 'invalid_parameter_value';
    end if;
    select string_agg(f, ', ') into wrong
    from jsonb_object_keys(settings) f
    where f <> all (array['url', 'description', 'owner', 'event_types', 'resources', 'concurrency', 'rate']);
    if wrong is not null then
        raise exception 'the settings have unknown fields: %', wrong using errcode = 'invalid_parameter_value';
    end if;
    s := jsonb_populate_record(null::notifier.endpoint_settings, settings);
    if s.url is null then
        raise exception 'the settings have no url' using errcode = 'invalid_parameter_value';
    end if;
    id := notifier.new_endpoint_id();
    secret := notifier.new_secret();
    insert into notifier.endpoints (id, url, description, owner, event_types, resources, concurrency, rate)
    values (id, s.url, s.description, s.owner, s.event_types, s.resources, coalesce(s.concurrency, 4), s.rate);
    insert into notifier.endpoint_secrets (endpoint, secret) values (id, secret);
    perform notifier.record('create endpoint', jsonb_build_object('endpoint', id), operator, 1);
end
$$;
comment on function notifier.create_endpoint is 'returns its id and its secret, which the API never shows again. Types, resources, owner and url are as good as you give them: the API checks more';

-- Locks the endpoint; fails unless it is there and, if asked, enabled.
create function notifier.lock_endpoint(id text, needs_enabled boolean) returns void
language plpgsql as $$
declare
    on_now boolean;
begin
    select e.enabled into on_now from notifier.endpoints e where e.id = lock_endpoint.id and e.deleted_at is null for no key update;
    if not found then
        raise exception 'there is no endpoint %', id using errcode = 'no_data_found';
    end if;
    if needs_enabled and not on_now then
        raise exception 'the endpoint is disabled: enable it first' using errcode = 'object_not_in_prerequisite_state';
    end if;
end
$$;

create function notifier.rotate_secret(id text, overlap interval, operator text) returns text
language plpgsql as $$
declare
    new_secret text := notifier.new_secret();
begin
    if overlap not between interval '0' and interval '30 days' then
        raise exception 'the overlap must be 0 to 30 days' using errcode = 'invalid_parameter_value';
    end if;
    perform notifier.lock_endpoint(id, false);
    delete from notifier.endpoint_secrets s where s.endpoint = rotate_secret.id and s.expires_at <= clock_timestamp();
    if (select count(*) from notifier.endpoint_secrets s where s.endpoint = rotate_secret.id) >= 5 then
        raise exception 'four older secrets are still valid: rotate again when one has expired' using errcode = 'object_not_in_prerequisite_state';
    end if;
    update notifier.endpoint_secrets s
    set expires_at = clock_timestamp() + overlap
    where s.endpoint = rotate_secret.id and s.expires_at is null;
    insert into notifier.endpoint_secrets (endpoint, secret) values (id, new_secret);
    update notifier.endpoints e set changed_at = clock_timestamp() where e.id = rotate_secret.id;
    perform notifier.record('rotate secret', jsonb_build_object('endpoint', id, 'overlap', overlap), operator, 1);
    return new_secret;
end
$$;
comment on function notifier.rotate_secret is 'returns the new secret. What is delivered within the overlap is signed with the old one as well';

-- An event of a booking that does not exist, in the form of pkg/event.
create function notifier.example_endpoint(id text, operator text) returns text
language plpgsql as $$
declare
    name text := gen_random_uuid()::text;
    hour timestamptz := date_trunc('hour', now()) + interval '2 days';
    iso  text := 'YYYY-MM-DD"T"HH24:MI:SS"Z"';
    e    notifier.endpoints;
    body text;
begin
    perform notifier.lock_endpoint(id, true);
    select * into e from notifier.endpoints x where x.id = example_endpoint.id;
    body := format(
        '{"specversion":"1.0","id":"booking-%1$s-v1","source":"/slotwise/booking","type":"%2$s","subject":"%1$s","time":"%3$s",'
        '"datacontenttype":"application/json","data":{"booking":"%1$s","version":1,"start_version":1,"told_customer":1,"told_host":0,'
        '"status":"%4$s","resource":"%5$s","start":"%6$s","end":"%7$s","zone":"UTC","seats":1,"changed":["start","end","seats","status","contact"]}}',
        name, coalesce(e.event_types[1], 'booking.v1.confirmed'), to_char(now() at time zone 'UTC', iso),
        case when e.event_types[1] = 'booking.v1.cancelled' then 'cancelled' else 'confirmed' end,
        coalesce(e.resources[1], 'example'), to_char(hour at time zone 'UTC', iso), to_char((hour + interval '1 hour') at time zone 'UTC', iso));
    insert into notifier.send_log (key, channel, kind, version, endpoint, urgency, state, due_at, payload)
    values ('webhook-example-' || name || '-' || id, 'webhook', 'webhook', 1, id, 0, 'planned', clock_timestamp(),
            jsonb_build_object('event', translate(encode(convert_to(body, 'UTF8'), 'base64'), E'\n', '')));
    perform notifier.record('send example', jsonb_build_object('endpoint', id), operator, 1);
    return 'webhook-example-' || name || '-' || id;
end
$$;
comment on function notifier.example_endpoint is 'plans the delivery of an example and returns its key, which says so';

create function notifier.resend_delivery(key text, operator text) returns text
language plpgsql as $$
declare
    d    notifier.send_log;
    base text;
    n    integer;
begin
    select * into d from notifier.send_log s where s.key = resend_delivery.key and s.channel = 'webhook';
    if not found then
        raise exception 'there is no delivery %', key using errcode = 'no_data_found';
    end if;
    perform notifier.lock_endpoint(d.endpoint, true);
    select * into d from notifier.send_log s where s.key = resend_delivery.key for no key update;
    if d.state in ('planned', 'unknown', 'handed') then
        raise exception 'the delivery is still on its way' using errcode = 'object_not_in_prerequisite_state';
    end if;
    if d.state in ('held', 'refused') then
        update notifier.send_log s
        set state = 'planned', reason = null, due_at = clock_timestamp(), attempts = 0, first_4xx_at = null
        where s.key = d.key;
        base := d.key;
    else
        base := case when d.copy > 1 then left(d.key, -length('-c' || d.copy)) else d.key end;
        n := d.copy + 1;
        while exists (select from notifier.send_log s where s.key = base || '-c' || n) loop
            n := n + 1;
        end loop;
        base := base || '-c' || n;
        insert into notifier.send_log (key, channel, booking, kind, version, endpoint, copy, urgency, state, due_at, payload)
        values (base, 'webhook', d.booking, 'webhook', d.version, d.endpoint, n, 0, 'planned', clock_timestamp(), d.payload);
    end if;
    perform notifier.record('resend delivery', jsonb_build_object('keys', jsonb_build_array(d.key)), operator, 1);
    return base;
end
$$;
comment on function notifier.resend_delivery is 'a held or refused delivery is planned again, of one that was sent or skipped a copy with the same webhook-id. Returns the key of what is planned';

create function notifier.recover_endpoint(id text, since timestamptz, operator text) returns bigint
language plpgsql as $$
declare
    n bigint;
begin
    perform notifier.lock_endpoint(id, true);
    with missed as materialized (
        select s.key
        from notifier.send_log s
        where s.key in (
            select o.key
            from notifier.send_log o
            where o.channel = 'webhook' and o.endpoint = recover_endpoint.id and o.created_at >= since
              and (o.state in ('held', 'refused') or o.state in ('planned', 'unknown') and o.due_at > now())
            order by o.created_at, o.key
            limit 10000)
          and s.state in ('held', 'refused', 'planned', 'unknown')
        order by s.key
        for no key update)
    update notifier.send_log s
    set state = 'planned', reason = null, due_at = least(s.due_at, now()), attempts = 0, first_4xx_at = null
    from missed m
    where s.key = m.key;
    get diagnostics n = row_count;
    perform notifier.record('recover endpoint', jsonb_build_object('endpoint', id, 'since', since), operator, n);
    return n;
end
$$;
comment on function notifier.recover_endpoint is 'plans again, the oldest first and with all their tries, what was planned since then and is held, refused or waits for a later try. '
    'At most 10 000, and returns how many: call it again while it returns so many';

-- Messages of one endpoint, in every command that takes a filter.
alter type notifier.filter add attribute endpoint text;

create or replace function notifier.read_filter(filter jsonb) returns notifier.filter
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
    where f <> all (array['keys', 'states', 'reason', 'kind', 'channel', 'role', 'booking', 'since', 'until', 'limit', 'endpoint']);
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

create or replace function notifier.matching(filter jsonb, states text[], after text default null, most integer default null) returns setof text
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
      and (f.endpoint is null or s.endpoint = f.endpoint and s.channel = 'webhook')
      and (f.since is null or s.created_at >= f.since)
      and (f.until is null or s.created_at < f.until)
      and (after is null or (s.created_at, s.key) > (start, after))
    order by s.created_at, s.key
    limit least(most, f."limit");
end
$$;

-- A webhook waits in its endpoint's own queue, the oldest first; what is for an endpoint that is
-- disabled or deleted stays where it is.
create or replace function notifier.plan_again(filter jsonb, states text[], fresh boolean) returns setof text
language sql as $$
    update notifier.send_log s
    set state = 'planned',
        reason = null,
        urgency = case s.channel when 'webhook' then s.urgency else 3 end,
        due_at = greatest(clock_timestamp(), (
            select max(q.quiet_until)
            from notifier.send_log q
            where q.booking = s.booking and q.role = s.role and q.quiet_until is not null)),
        attempts = case when fresh then 0 else s.attempts end,
        first_4xx_at = case when fresh then null else s.first_4xx_at end
    from notifier.chosen(filter, states) c (key)
    where s.key = c.key
      and (s.channel <> 'webhook' or exists (select from notifier.endpoints e where e.id = s.endpoint and e.enabled))
    returning s.key
$$;

-- The rest of a mail's resend is as it was. A webhook is a fact, not the present state: it has a
-- resend of its own, and is never turned into a mail.
alter function notifier.resend(jsonb, text) rename to resend_mails;
create function notifier.resend(filter jsonb, operator text) returns setof text
language plpgsql as $$
declare
    f notifier.filter := notifier.read_filter(filter);
begin
    if f.channel = 'webhook' or f.kind = 'webhook' or f.endpoint is not null
       or exists (select from unnest(f.keys) k join notifier.send_log s on s.key = k where s.channel = 'webhook') then
        raise exception 'a webhook is resent by slotwise webhooks resend, or notifier.resend_delivery: this sends mails of the present state'
            using errcode = 'invalid_parameter_value';
    end if;
    return query select notifier.resend_mails(filter, operator);
end
$$;
comment on function notifier.resend is 'plans the mail of the present state once more to whom the messages were for. Returns the keys of the new ones';

-- An endpoint that fails, or that asked to be told slowly, is behind its own waits: its own
-- metrics tell of it.
create or replace view notifier.overdue as
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
              where w.paused and w.name = case m.channel when 'email' then 'mail' when 'webhook' then 'webhooks' end)
          and not (m.channel = 'webhook' and exists (
              select from notifier.endpoints e
              where e.id = m.endpoint and (not e.enabled or e.failing_since is not null or e.rate is not null)
              offset 0)));
comment on view notifier.overdue is 'past due by five minutes, not behind a quiet time, a switch or its endpoint: what slotwise_messages_overdue counts';

revoke execute on all functions in schema notifier from public;
grant execute on all functions in schema notifier to slotwise_notifier;
