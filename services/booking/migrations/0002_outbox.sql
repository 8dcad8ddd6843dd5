-- The outbox (package pkg/outbox says how it is written, claimed and marked). The checks
-- keep out what no stream would take: a row that can be written can be published.

create table booking.outbox_events (
    id              bigint      not null generated always as identity,
    key             text        not null,
    subject         text        not null,
    message_id      text        not null,
    headers         jsonb       not null default '{}',
    payload         bytea       not null,
    created_at      timestamptz not null default clock_timestamp(),
    attempts        integer     not null default 0,
    next_attempt_at timestamptz not null default '-infinity',
    last_error      text,
    parked_at       timestamptz,
    published_at    timestamptz,
    constraint outbox_events_pkey primary key (id),
    constraint outbox_events_message_id_key unique (message_id),
    constraint outbox_events_key_length check (char_length(key) between 1 and 200),
    -- Checks run again with every mark of the relay, and a pattern with several repeats costs
    -- ten times what these do, one with {1,63} in it fifty times.
    constraint outbox_events_subject_form check (
        subject ~ '^[a-z0-9.-]+$' and char_length(subject) <= 123
        and subject like 'booking.v1._%._%._%' and subject not like '%..%' and subject not like '%.'
        and split_part(subject, '.', 3) in ('confirmed', 'rescheduled', 'cancelled', 'changed', 'erased')
        and split_part(subject, '.', 6) = ''),
    constraint outbox_events_message_id_form check (message_id ~ '^[A-Za-z0-9_-]+$' and char_length(message_id) <= 200),
    constraint outbox_events_headers_size check (jsonb_typeof(headers) = 'object' and octet_length(headers::text) <= 4096),
    constraint outbox_events_headers_strings check (not jsonb_path_exists(headers, '$.* ? (@.type() <> "string")')),
    constraint outbox_events_payload_size check (octet_length(payload) between 1 and 65536),
    constraint outbox_events_published_or_parked check (published_at is null or parked_at is null)
);
comment on column booking.outbox_events.key is 'orders rows: of one key only the oldest waiting row is published. The relay never interprets it';

create index outbox_events_waiting on booking.outbox_events (id) where published_at is null and parked_at is null;
-- Written otherwise than the predicate above, so that the claim's look for an older row of
-- the key can use this index only: outbox_events_waiting seems as good while nothing waits,
-- and with a plan from then a claim from a backlog of 100 000 took 21 s.
create index outbox_events_waiting_key on booking.outbox_events (key, id) where coalesce(published_at, parked_at) is null;
create index outbox_events_parked on booking.outbox_events (parked_at) where parked_at is not null;
create index outbox_events_key on booking.outbox_events (key, id);
alter table booking.outbox_events set (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000
);

grant select, insert, delete on booking.outbox_events to slotwise_booking;
grant select, update (attempts, next_attempt_at, last_error, parked_at, published_at) on booking.outbox_events to slotwise_relay;
