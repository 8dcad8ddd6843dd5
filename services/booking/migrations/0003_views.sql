-- What other services may read of this schema. Additive only: a column is never renamed,
-- retyped or given another meaning, because the last release reads it too.

create view booking.for_notifier as
select b.id        as booking,
       b.version,
       b.start_version,
       b.told_customer,
       b.told_host,
       b.status,
       b.starts_at,
       b.ends_at,
       b.seats,
       b.remind_at,
       b.resource,
       r.name      as resource_name,
       r.zone,
       r.host_address,
       c.customer,
       c.name,
       c.address,
       c.locale,
       c.note
from booking.bookings b
join booking.resources r on r.id = b.resource
left join booking.contacts c on c.booking = b.id;
comment on view booking.for_notifier is 'a booking''s facts, its contact (null: erased) and its resource';

create view booking.outbox_for_notifier as
select id, key, subject, message_id, headers, payload, created_at, attempts, last_error, parked_at, published_at
from booking.outbox_events;

create view booking.for_scheduler as
select id as booking, status, start_version, starts_at, remind_at
from booking.bookings;
comment on view booking.for_scheduler is 'reminders owed; no person in it';

grant select on booking.for_notifier, booking.outbox_for_notifier to slotwise_notifier;
-- notifier.resend, called by the owner in psql: no person.
grant usage on schema booking to slotwise_notifier_owner;
grant select (booking, status, start_version, told_customer, told_host, starts_at, ends_at, seats, resource, zone, customer)
    on booking.for_notifier to slotwise_notifier_owner;
grant select on booking.for_scheduler to slotwise_scheduler;
