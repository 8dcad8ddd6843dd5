-- Endpoints: who is told of events by webhook. A delivery is a send_log row of channel 'webhook',
-- planned by the transaction of its event's mails, under the key webhook-<event id>-<endpoint>.
--
-- Locks are taken in this order: endpoint, then send_log rows in key order. Planning reads the
-- endpoints FOR SHARE; who disables, enables or deletes one takes its row lock first. So either
-- the planner sees the change, or the change sees the rows that were planned before it.

create table notifier.endpoints (
    id              text        not null,
    url             text,
    description     text,
    owner           text,
    event_types     text[],
    resources       text[],
    enabled         boolean     not null default true,
    disabled_at     timestamptz,
    disabled_reason text,
    failing_since   timestamptz,
    concurrency     integer     not null default 4,
    rate            integer,
    created_at      timestamptz not null default clock_timestamp(),
    changed_at      timestamptz not null default clock_timestamp(),
    deleted_at      timestamptz,
    constraint endpoints_pkey primary key (id),
    constraint endpoints_id_form check (id ~ '^[a-z0-9_-]+$' and char_length(id) <= 40),
    constraint endpoints_url_length check (char_length(url) between 1 and 2048),
    constraint endpoints_description_length check (char_length(description) <= 500),
    constraint endpoints_owner_length check (char_length(owner) between 3 and 254),
    constraint endpoints_event_types_some check (cardinality(event_types) between 1 and 100),
    constraint endpoints_resources_some check (cardinality(resources) between 1 and 1000),
    constraint endpoints_disabled_reason_length check (char_length(disabled_reason) between 1 and 1024),
    constraint endpoints_disabled_has_reason check (
        case when enabled then disabled_at is null and disabled_reason is null
             else disabled_at is not null and disabled_reason is not null end),
    constraint endpoints_concurrency_range check (concurrency between 1 and 64),
    constraint endpoints_rate_range check (rate between 1 and 10000),
    -- No check that one that is not deleted has a url: what can't be sent must not keep a mail from being planned.
    constraint endpoints_deleted_is_bare check (deleted_at is null or not enabled and url is null and owner is null and description is null)
);
comment on table notifier.endpoints is 'who is told of events by webhook; a deleted one stays, bare, because its deliveries name it';
comment on column notifier.endpoints.owner is 'the mail address of who is told when it is disabled';
comment on column notifier.endpoints.event_types is 'exact names; null: all';
comment on column notifier.endpoints.resources is 'null: all';
comment on column notifier.endpoints.failing_since is 'the first failure since the last success; null: none';
comment on column notifier.endpoints.rate is 'deliveries per second; null: no limit';

create table notifier.endpoint_secrets (
    endpoint   text        not null,
    secret     text        not null,
    created_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz,
    constraint endpoint_secrets_pkey primary key (endpoint, secret),
    constraint endpoint_secrets_endpoint_fkey foreign key (endpoint) references notifier.endpoints (id),
    constraint endpoint_secrets_form check (secret like 'whsec\_%' and char_length(secret) between 30 and 100)
);
comment on column notifier.endpoint_secrets.secret is 'whsec_ and base64 of 32 random bytes; readable, because each delivery is signed with it';
comment on column notifier.endpoint_secrets.expires_at is 'null: the current one. Once expired it signs nothing and is deleted by the sweep';
create unique index endpoint_secrets_current on notifier.endpoint_secrets (endpoint) where expires_at is null;

-- Each returns how many messages it moved, or null when there was nothing to change: no such
-- endpoint, a deleted one, or one that is so already. Only a change is recorded. It moves the
-- oldest 10 000 at most, so that no backlog makes it too long for its transaction, which may be
-- that of the senders' results; tidy_endpoints moves the rest.

create function notifier.disable_endpoint(id text, reason text, operator text) returns bigint
language plpgsql as $$
declare
    n bigint;
begin
    update notifier.endpoints e
    set enabled = false, disabled_at = clock_timestamp(), disabled_reason = disable_endpoint.reason, changed_at = clock_timestamp()
    where e.id = disable_endpoint.id and e.enabled and e.deleted_at is null;
    if not found then
        return null;
    end if;
    with waiting as materialized (
        select s.key
        from notifier.send_log s
        where s.key in (
            select o.key
            from notifier.send_log o
            where o.channel = 'webhook' and o.endpoint = disable_endpoint.id and o.state in ('planned', 'unknown')
            order by o.due_at
            limit 10000)
          and s.state in ('planned', 'unknown')
        order by s.key
        for no key update)
    update notifier.send_log s
    set state = 'held', reason = 'endpoint disabled'
    from waiting w
    where s.key = w.key;
    get diagnostics n = row_count;
    perform notifier.record('disable endpoint', jsonb_build_object('endpoint', disable_endpoint.id, 'reason', disable_endpoint.reason), operator, n);
    return n;
end
$$;
comment on function notifier.disable_endpoint is 'nothing more is handed; what waits and what comes is held with the reason "endpoint disabled", until enable_endpoint. What is in hand ends: '
    'who writes its result holds it too, unless it was sent';

-- What waited while its receiver was off begins anew: at once, the oldest first, with all its tries.
create function notifier.enable_endpoint(id text, operator text) returns bigint
language plpgsql as $$
declare
    n bigint;
begin
    update notifier.endpoints e
    set enabled = true, disabled_at = null, disabled_reason = null, failing_since = null, changed_at = clock_timestamp()
    where e.id = enable_endpoint.id and not e.enabled and e.deleted_at is null;
    if not found then
        return null;
    end if;
    with waiting as materialized (
        select s.key
        from notifier.send_log s
        where s.key in (
            select o.key
            from notifier.send_log o
            where o.channel = 'webhook' and o.endpoint = enable_endpoint.id and o.state = 'held' and o.reason = 'endpoint disabled'
            order by o.created_at
            limit 10000)
          and s.state = 'held'
        order by s.key
        for no key update)
    update notifier.send_log s
    set state = 'planned', reason = null, due_at = least(s.due_at, clock_timestamp()), attempts = 0, first_4xx_at = null
    from waiting w
    where s.key = w.key;
    get diagnostics n = row_count;
    perform notifier.record('enable endpoint', jsonb_build_object('endpoint', enable_endpoint.id), operator, n);
    return n;
end
$$;
comment on function notifier.enable_endpoint is 'plans again exactly what was held because the endpoint was disabled, and forgets its failures';

create function notifier.delete_endpoint(id text, operator text) returns bigint
language plpgsql as $$
declare
    n bigint;
begin
    update notifier.endpoints e
    set enabled = false,
        disabled_at = coalesce(e.disabled_at, clock_timestamp()),
        disabled_reason = coalesce(e.disabled_reason, 'deleted'),
        url = null, owner = null, description = null, failing_since = null,
        deleted_at = clock_timestamp(), changed_at = clock_timestamp()
    where e.id = delete_endpoint.id and e.deleted_at is null;
    if not found then
        return null;
    end if;
    delete from notifier.endpoint_secrets s where s.endpoint = delete_endpoint.id;
    with waiting as materialized (
        select s.key
        from notifier.send_log s
        where s.key in (
            select o.key
            from notifier.send_log o
            where o.channel = 'webhook' and o.endpoint = delete_endpoint.id and o.state in ('planned', 'unknown', 'held')
            order by o.created_at
            limit 10000)
          and s.state in ('planned', 'unknown', 'held')
        order by s.key
        for no key update)
    update notifier.send_log s
    set state = 'skipped', reason = 'endpoint deleted'
    from waiting w
    where s.key = w.key;
    get diagnostics n = row_count;
    perform notifier.record('delete endpoint', jsonb_build_object('endpoint', delete_endpoint.id), operator, n);
    return n;
end
$$;
comment on function notifier.delete_endpoint is 'for good: url, owner and secrets are gone, and what waits or is held is skipped with the reason "endpoint deleted"';

-- Rows follow their endpoints. One that was in hand while its endpoint was disabled or deleted
-- may have come back to wait, and of a large backlog those functions moved only a part.
create function notifier.tidy_endpoints() returns bigint
language plpgsql as $$
declare
    n bigint;
begin
    delete from notifier.endpoint_secrets s where s.expires_at <= clock_timestamp();
    with stray as materialized (
        select e.id, o.key
        from notifier.endpoints e
        cross join lateral (
            (select s.key
             from notifier.send_log s
             where not e.enabled and s.channel = 'webhook' and s.endpoint = e.id and s.state in ('planned', 'unknown')
             order by s.due_at -- by the endpoint's own index, whatever little waited when this was planned
             limit 1000)
            union all
            (select s.key
             from notifier.send_log s
             where e.enabled and s.channel = 'webhook' and s.endpoint = e.id and s.state = 'held' and s.reason = 'endpoint disabled'
             limit 1000)
            union all
            (select s.key
             from notifier.send_log s
             where e.deleted_at is not null and s.channel = 'webhook' and s.endpoint = e.id and s.state = 'held'
             limit 1000)) o
        limit 1000),
    stands as materialized (
        select e.id, e.enabled, e.deleted_at is not null as deleted
        from notifier.endpoints e
        where e.id in (select y.id from stray y)
        order by e.id
        for share),
    moved as materialized (
        select s.key, t.enabled, t.deleted
        from stray y
        join stands t on t.id = y.id
        join notifier.send_log s on s.key = y.key
        where s.state in ('planned', 'unknown') and not t.enabled
           or s.state = 'held' and (t.deleted or t.enabled and s.reason = 'endpoint disabled')
        order by s.key
        for no key update of s skip locked)
    update notifier.send_log s
    set state = case when m.deleted then 'skipped' when m.enabled then 'planned' else 'held' end,
        reason = case when m.deleted then 'endpoint deleted' when not m.enabled then 'endpoint disabled' end,
        due_at = case when m.enabled then least(s.due_at, clock_timestamp()) else s.due_at end,
        attempts = case when m.enabled then 0 else s.attempts end,
        first_4xx_at = case when m.enabled then null else s.first_4xx_at end
    from moved m
    where s.key = m.key;
    get diagnostics n = row_count;
    return n;
end
$$;
comment on function notifier.tidy_endpoints is 'deletes expired secrets, and lets rows follow their endpoints: holds or skips what waits for one that is disabled or deleted, plans what '
    'was held for one that is enabled. At most 1000, and returns how many: call it again while it returns so many';

grant select, insert, update on notifier.endpoints to slotwise_notifier;
grant select, insert, update, delete on notifier.endpoint_secrets to slotwise_notifier;
revoke execute on all functions in schema notifier from public;
grant execute on all functions in schema notifier to slotwise_notifier;
