-- Resources, bookings, seats and people. The facts that other services compare
-- (version, start_version, remind_at, told_customer, told_host) are written with every
-- change under the booking's row lock; nobody else computes them.

create table booking.resources (
    id            text        not null,
    name          text        not null,
    zone          text        not null,
    capacity      integer     not null,
    slot_minutes  integer     not null,
    reminder_lead interval,
    host_address  text,
    retired_at    timestamptz,
    constraint resources_pkey primary key (id),
    constraint resources_id_form check (id ~ '^[a-z0-9-]{1,63}$'),
    constraint resources_name_length check (char_length(name) between 1 and 200),
    constraint resources_zone_length check (char_length(zone) between 1 and 64),
    constraint resources_capacity_range check (capacity between 1 and 10000),
    constraint resources_slot_range check (slot_minutes between 1 and 1440),
    constraint resources_lead_range check (reminder_lead between interval '0' and interval '366 days'),
    constraint resources_host_length check (char_length(host_address) between 3 and 254)
);
comment on column booking.resources.reminder_lead is 'null: the service''s REMINDER_LEAD; 0: no reminders';

create table booking.customers (
    id         uuid        not null,
    address    text        not null,
    created_at timestamptz not null default clock_timestamp(),
    constraint customers_pkey primary key (id),
    constraint customers_address_key unique (address),
    constraint customers_address_length check (char_length(address) between 3 and 254)
);
comment on column booking.customers.address is 'normalised: one person, one row';

create table booking.bookings (
    id            uuid        not null,
    resource      text        not null,
    status        text        not null,
    starts_at     timestamptz not null,
    ends_at       timestamptz not null,
    seats         integer     not null,
    version       bigint      not null,
    start_version bigint      not null,
    remind_at     timestamptz,
    told_customer bigint      not null,
    told_host     bigint      not null,
    created_at    timestamptz not null,
    changed_at    timestamptz not null,
    constraint bookings_pkey primary key (id),
    constraint bookings_resource_fkey foreign key (resource) references booking.resources (id),
    constraint bookings_status_known check (status in ('confirmed', 'cancelled')),
    constraint bookings_length check (ends_at > starts_at and ends_at - starts_at <= interval '1440 minutes'),
    constraint bookings_seats_range check (seats between 1 and 10000),
    constraint bookings_version_positive check (version >= 1),
    constraint bookings_start_version_range check (start_version between 1 and version),
    constraint bookings_told_range check (told_customer between 0 and version and told_host between 0 and version),
    constraint bookings_remind_before_start check (remind_at < starts_at),
    constraint bookings_cancelled_owes_no_reminder check (status = 'confirmed' or remind_at is null)
);
comment on column booking.bookings.start_version is 'the version that last set time or status';
comment on column booking.bookings.told_customer is 'the version that last owed the customer a mail; 0: never';
comment on column booking.bookings.told_host is 'the version that last owed the host a mail; 0: never';

create index bookings_remind on booking.bookings (remind_at, id) where remind_at is not null;
-- The bookings whose reminder is due and whose start is ahead, whatever their leads: the
-- notifier's audit asks for them every minute.
create index bookings_reminder_window on booking.bookings using gist (tstzrange(remind_at, starts_at)) where remind_at is not null;
create index bookings_resource on booking.bookings (resource, starts_at);

create table booking.contacts (
    booking  uuid not null,
    customer uuid not null,
    name     text not null,
    address  text not null,
    locale   text not null,
    note     text not null,
    constraint contacts_pkey primary key (booking),
    constraint contacts_booking_fkey foreign key (booking) references booking.bookings (id),
    constraint contacts_customer_fkey foreign key (customer) references booking.customers (id),
    constraint contacts_name_length check (char_length(name) between 1 and 200),
    constraint contacts_address_length check (char_length(address) between 3 and 254),
    constraint contacts_locale_length check (char_length(locale) <= 35),
    constraint contacts_note_length check (char_length(note) <= 2000)
);
comment on column booking.contacts.address is 'as typed; no row: the person was erased';

create index contacts_customer on booking.contacts (customer);

-- One row a seat taken: capacity 1 is the same case as capacity 100. Ranges are half-open,
-- so a booking may start at the instant at which another ends.
create table booking.seats (
    booking  uuid      not null,
    resource text      not null,
    seat     integer   not null,
    during   tstzrange not null,
    constraint seats_booking_fkey foreign key (booking) references booking.bookings (id),
    constraint seats_number_range check (seat between 1 and 10000),
    constraint seats_half_open check (lower_inc(during) and not upper_inc(during) and not isempty(during)),
    constraint seats_length check (upper(during) - lower(during) <= interval '1440 minutes'),
    constraint seats_once exclude using gist (resource with =, seat with =, during with &&) deferrable initially immediate
);
create index seats_booking on booking.seats (booking);
-- Finds the seats that overlap a range without GiST: seats_length bounds how far a seat that
-- ends after the range's start can reach.
create index seats_overlap on booking.seats (resource, upper(during), lower(during), seat);

create table booking.idempotency_keys (
    key         text        not null,
    fingerprint bytea       not null,
    status      integer     not null,
    header      jsonb       not null,
    body        bytea       not null,
    created_at  timestamptz not null default clock_timestamp(),
    constraint idempotency_keys_pkey primary key (key),
    constraint idempotency_keys_length check (char_length(key) between 1 and 255),
    constraint idempotency_keys_status_final check (status between 200 and 499)
);
create index idempotency_keys_age on booking.idempotency_keys (created_at);

grant usage on schema booking to slotwise_booking, slotwise_relay, slotwise_notifier, slotwise_scheduler;
grant select, insert, update on booking.resources, booking.customers, booking.bookings to slotwise_booking;
grant select, insert, update, delete on booking.contacts, booking.seats, booking.idempotency_keys to slotwise_booking;
