-- The send log: one row for every message owed, written before the event is acknowledged
-- and closed after the server's answer. Package internal/sendlog holds the protocol.

create table notifier.send_log (
    key           text        not null,
    channel       text        not null,
    booking       uuid,
    kind          text        not null,
    version       bigint,
    start_version bigint,
    role          text,
    endpoint      text,
    copy          integer     not null default 1,
    urgency       smallint    not null,
    state         text        not null,
    reason        text,
    created_at    timestamptz not null default clock_timestamp(),
    due_at        timestamptz not null,
    token         uuid,
    handed_at     timestamptz,
    lease_until   timestamptz,
    quiet_until   timestamptz,
    unknowns      integer     not null default 0,
    accepted_at   timestamptz,
    attempts      integer     not null default 0,
    first_4xx_at  timestamptz,
    payload       jsonb       not null default '{}',
    constraint send_log_pkey primary key (key),
    -- No {1,200} in this pattern: a bounded repeat costs tens of microseconds a row.
    constraint send_log_key_form check (key ~ '^[A-Za-z0-9_-]+$' and char_length(key) <= 200),
    constraint send_log_channel_known check (channel in ('email', 'webhook', 'event')),
    constraint send_log_kind_known check (kind in ('confirm', 'move', 'cancel', 'reminder', 'notice', 'webhook', 'event')),
    constraint send_log_role_known check (role in ('customer', 'host')),
    constraint send_log_state_known check (state in ('planned', 'handed', 'sent', 'refused', 'unknown', 'held', 'skipped')),
    constraint send_log_email_has_slot check (channel <> 'email' or role is not null),
    constraint send_log_webhook_has_endpoint check (channel <> 'webhook' or endpoint is not null),
    constraint send_log_copy_positive check (copy >= 1),
    constraint send_log_urgency_range check (urgency between 0 and 3),
    constraint send_log_counts check (unknowns >= 0 and attempts >= 0),
    constraint send_log_handed_has_lease check (state <> 'handed' or (token is not null and handed_at is not null and lease_until is not null)),
    constraint send_log_lease_is_of_a_hand check (lease_until is null or state = 'handed'),
    constraint send_log_sent_was_accepted check (state <> 'sent' or accepted_at is not null),
    constraint send_log_closed_has_reason check (state not in ('refused', 'held', 'skipped') or reason is not null),
    constraint send_log_reason_length check (char_length(reason) <= 1024),
    constraint send_log_payload_size check (octet_length(payload::text) <= 131072)
);
comment on column notifier.send_log.payload is 'the facts that the message tells, the same on every try; no person';
comment on column notifier.send_log.quiet_until is 'until then no other mail of this booking and role is handed; only rises';

-- One SMTP dialogue for each booking and role.
create unique index send_log_slot on notifier.send_log (booking, role) where state = 'handed' and channel = 'email';
create index send_log_due on notifier.send_log (channel, urgency, due_at) where state in ('planned', 'unknown');
-- The second conjunct keeps the planner from probing slots through this index.
create index send_log_handed on notifier.send_log (token, lease_until) where state = 'handed' and lease_until is not null;
create index send_log_quiet on notifier.send_log (booking, role) where quiet_until is not null;
create index send_log_booking on notifier.send_log (booking);
create index send_log_held on notifier.send_log (created_at) where state in ('held', 'refused');
alter table notifier.send_log set (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000
);

-- One row a hand: the trace, webhooks' attempts and the count of possible copies read it.
create table notifier.hands (
    key       text        not null,
    token     uuid        not null,
    n         integer     not null,
    handed_at timestamptz not null,
    ended_at  timestamptz,
    outcome   text,
    unknown   boolean     not null default false,
    answer    text,
    constraint hands_pkey primary key (key, token),
    constraint hands_n_key unique (key, n),
    constraint hands_key_fkey foreign key (key) references notifier.send_log (key) on delete cascade,
    constraint hands_outcome_known check (outcome in ('sent', 'planned', 'refused', 'unknown', 'held')),
    constraint hands_ended_has_outcome check ((ended_at is null) = (outcome is null)),
    constraint hands_answer_size check (octet_length(answer) <= 1024)
);
comment on column notifier.hands.unknown is 'marked: a copy is possible because of this hand, whatever came later';

create table notifier.progress (
    name        text        not null,
    mark        bigint      not null,
    rewind_mark bigint      not null default 0,
    rewound_at  timestamptz not null default clock_timestamp(),
    passed_at   timestamptz not null default clock_timestamp(),
    constraint progress_pkey primary key (name)
);
comment on column notifier.progress.mark is 'outbox rows up to this id have been audited';
comment on column notifier.progress.rewind_mark is 'where the mark stood at rewound_at: it goes back there an hour later';
insert into notifier.progress (name, mark) values ('audit', 0);

create table notifier.switches (
    name       text        not null,
    paused     boolean     not null,
    changed_at timestamptz not null default clock_timestamp(),
    changed_by text        not null,
    constraint switches_pkey primary key (name),
    constraint switches_name_known check (name in ('mail', 'webhooks'))
);
insert into notifier.switches (name, paused, changed_by) values ('mail', false, 'migration'), ('webhooks', false, 'migration');

create table notifier.operations (
    id        bigint      not null generated always as identity,
    at        timestamptz not null default clock_timestamp(),
    operator  text        not null,
    operation text        not null,
    arguments jsonb       not null default '{}',
    affected  bigint,
    constraint operations_pkey primary key (id),
    constraint operations_operator_length check (char_length(operator) between 1 and 100),
    constraint operations_operation_length check (char_length(operation) between 1 and 100)
);
comment on table notifier.operations is 'who did what: every change that an operator asked for';

create view notifier.for_booking as
select booking, key, channel, kind, version, role, endpoint, copy, state, reason, due_at, handed_at, accepted_at, unknowns
from notifier.send_log
where booking is not null;
comment on view notifier.for_booking is 'what became of a booking''s messages';

create view notifier.progress_for_booking as
select mark, passed_at from notifier.progress where name = 'audit';
comment on view notifier.progress_for_booking is 'how far the audit has come: older outbox rows are planned';

grant usage on schema notifier to slotwise_notifier, slotwise_booking, slotwise_relay, slotwise_scheduler;
grant select, insert, update, delete on notifier.send_log, notifier.hands to slotwise_notifier;
grant select, update on notifier.progress, notifier.switches to slotwise_notifier;
grant select, insert on notifier.operations to slotwise_notifier;
grant insert on notifier.operations to slotwise_relay, slotwise_scheduler;
grant select on notifier.for_booking, notifier.progress_for_booking to slotwise_booking;
