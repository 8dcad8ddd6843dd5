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
-- endpoint, a deleted one, or one that is so already. Only a change is recorded.

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
        where s.channel = 'webhook' and s.endpoint = disable_endpoint.id and s.state in ('planned', 'unknown')
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
        where s.channel = 'webhook' and s.endpoint = enable_endpoint.id and s.state = 'held' and s.reason = 'endpoint disabled'
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
        where s.channel = 'webhook' and s.endpoint = delete_endpoint.id and s.state in ('planned', 'unknown', 'held')
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

-- A row that was in hand while its endpoint was disabled or deleted may have come back to wait.
create function notifier.tidy_endpoints() returns bigint
language plpgsql as $$
declare
    n bigint;
begin
    delete from notifier.endpoint_secrets s where s.expires_at <= clock_timestamp();
    with gone as materialized (
        select e.id, e.deleted_at is not null as deleted
        from notifier.endpoints e
        where not e.enabled
        order by e.id
        for share),
    waiting as materialized (
        select s.key, g.deleted
        from gone g
        join notifier.send_log s on s.endpoint = g.id
        where s.channel = 'webhook' and s.state in ('planned', 'unknown')
        order by s.key
        limit 1000
        for no key update of s skip locked)
    update notifier.send_log s
    set state = case when w.deleted then 'skipped' else 'held' end,
        reason = case when w.deleted then 'endpoint deleted' else 'endpoint disabled' end
    from waiting w
    where s.key = w.key;
    get diagnostics n = row_count;
    return n;
end
$$;
comment on function notifier.tidy_endpoints is 'deletes expired secrets, and holds or skips what waits for an endpoint that is disabled or deleted, at most 1000: the number of those';

grant select, insert, update on notifier.endpoints to slotwise_notifier;
grant select, insert, update, delete on notifier.endpoint_secrets to slotwise_notifier;
revoke execute on all functions in schema notifier from public;
grant execute on all functions in schema notifier to slotwise_notifier;
