-- API keys (package pkg/apikey): who asks, and what for. A key is shown once, when it is
-- made; here is only its SHA-256, which nobody can turn back: a key has 160 random bits.

create table booking.api_keys (
    id           text        not null,
    hash         bytea       not null,
    name         text        not null,
    scopes       text[]      not null,
    resources    text[],
    created_at   timestamptz not null default clock_timestamp(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz,
    constraint api_keys_pkey primary key (id),
    constraint api_keys_hash_key unique (hash),
    constraint api_keys_id_form check (id ~ '^key_[a-z2-7]{16}$'),
    constraint api_keys_hash_size check (octet_length(hash) = 32),
    constraint api_keys_name_length check (char_length(name) between 1 and 100),
    constraint api_keys_scopes_known check (
        cardinality(scopes) > 0 and scopes <@ array['bookings:read', 'bookings:write', 'webhooks', 'admin']),
    constraint api_keys_resources_some check (cardinality(resources) between 1 and 1000)
);
comment on column booking.api_keys.resources is 'the only ones whose bookings it may see and change; null: all';
comment on column booking.api_keys.expires_at is 'null: never';
comment on column booking.api_keys.last_used_at is 'to a minute; null: never';

-- What the notifier's API needs to know a key by. A key that is gone stays in it, so that a
-- log can tell whose it was.
create view booking.keys_for_notifier as
select id, hash, scopes, resources, expires_at, revoked_at, last_used_at
from booking.api_keys;

-- Whose an Idempotency-Key is. The last release names no column that it does not know, and
-- finds what this one stores as before.
alter table booking.idempotency_keys add column caller text;
comment on column booking.idempotency_keys.caller is 'who used it, such as an API key''s id; null: anybody, before there were API keys';

grant select, insert, update (revoked_at, last_used_at) on booking.api_keys to slotwise_booking;
grant select, update (last_used_at) on booking.keys_for_notifier to slotwise_notifier;
