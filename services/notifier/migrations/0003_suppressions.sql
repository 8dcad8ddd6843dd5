-- Addresses that refused for good, what came back for mails that were accepted, and the notices
-- that tell a host of it. What they mean for the send log's protocol is in internal/sendlog/doc.go.

create table notifier.suppressions (
    address text collate "C" not null,
    reason  text             not null,
    since   timestamptz      not null default clock_timestamp(),
    key     text             not null,
    constraint suppressions_pkey primary key (address),
    constraint suppressions_address_normalised check (address = lower(address)),
    constraint suppressions_address_length check (char_length(address) <= 254),
    constraint suppressions_reason_length check (char_length(reason) <= 1024)
);
comment on table notifier.suppressions is 'addresses that no mail goes to, until somebody lifts the suppression';
comment on column notifier.suppressions.address is 'normalised, and the only personal data here: erasing somebody deletes the row';
comment on column notifier.suppressions.key is 'the message whose refusal or bounce it was; the send log may have forgotten it';

alter table notifier.send_log add column bounced_at timestamptz;
comment on column notifier.send_log.bounced_at is 'when a report came that the accepted mail could not be delivered; the state stays sent';

create or replace view notifier.messages as
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
       h.ended_at       as answered_at,
       s.bounced_at
from notifier.send_log s
left join lateral (
    select h.n, h.answer, h.ended_at
    from notifier.hands h
    where h.key = s.key
    order by h.n desc
    limit 1) h on true;

create or replace view notifier.for_booking as
select booking, key, channel, kind, version, role, endpoint, copy, state, reason, due_at, handed_at, accepted_at, unknowns, bounced_at
from notifier.send_log
where booking is not null;

-- Tells the host that a customer's mail was refused, held or bounced: once for each mail, by the
-- transaction that finds it out, whichever statement that is. No notice is about a host's own
-- mail, and so none about a notice.
create function notifier.tell_host() returns trigger
language plpgsql as $$
begin
    insert into notifier.send_log (key, channel, booking, kind, version, start_version, role, urgency, state, due_at, payload)
    select 'notice-' || new.key, 'email', new.booking, 'notice', new.version, new.start_version, 'host', 2, 'planned',
           greatest(clock_timestamp(), (
               select max(q.quiet_until)
               from notifier.send_log q
               where q.booking = new.booking and q.role = 'host' and q.quiet_until is not null)),
           new.payload || jsonb_build_object('about', new.key, 'why', new.reason)
    from booking.for_notifier b
    where b.booking = new.booking and b.customer is not null and b.host_address is not null
    on conflict on constraint send_log_pkey do nothing;
    return null;
end
$$;

create trigger send_log_tells_host
after update of state, bounced_at on notifier.send_log
for each row
when (new.role = 'customer' and new.channel = 'email'
      and (new.state in ('refused', 'held') and old.state <> new.state
           or new.bounced_at is not null and old.bounced_at is null and new.state <> 'skipped'))
execute function notifier.tell_host();

-- The record names the message that the suppression came from, not the address: what operators
-- did is kept for ever, addresses are not.
create function notifier.lift(address text, operator text) returns boolean
language plpgsql as $$
declare
    source text;
begin
    delete from notifier.suppressions s
    where s.address = lower(btrim(lift.address) collate "C")
    returning s.key into source;
    perform notifier.record('lift', jsonb_build_object('keys', array_remove(array[source], null)), operator, (source is not null)::integer);
    return source is not null;
end
$$;
comment on function notifier.lift is 'lets mails go to the address again. False: it was not suppressed. What was refused meanwhile is planned again by notifier.retry';

grant select, insert, delete on notifier.suppressions to slotwise_notifier;
revoke execute on all functions in schema notifier from public;
grant execute on all functions in schema notifier to slotwise_notifier;
