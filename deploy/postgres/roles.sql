-- The roles of one Slotwise database: two owners, who migrate, and four services.
-- An administrator runs this file in that database before the first migration, and again
-- after each upgrade: it is idempotent. It sets no password; give each role that logs in
-- one of its own with ALTER ROLE … PASSWORD.
--
-- The timeouts are a promise, not a tuning: nothing frozen may hold a lock for longer than
-- these, whatever the client believes. Owners have no statement timeout, because a
-- migration may have to build an index.

do $$
declare
    role text;
begin
    foreach role in array array[
        'slotwise_booking_owner', 'slotwise_notifier_owner',
        'slotwise_booking', 'slotwise_relay', 'slotwise_notifier', 'slotwise_scheduler'
    ] loop
        if not exists (select from pg_roles where rolname = role) then
            execute format('create role %I login', role);
        end if;
        execute format('alter role %I set idle_in_transaction_session_timeout = ''20s''', role);
        execute format('alter role %I set lock_timeout = ''5s''', role);
        if role not like '%\_owner' then
            execute format('alter role %I set statement_timeout = ''15s''', role);
        end if;
        execute format('grant connect on database %I to %I', current_database(), role);
    end loop;

    execute format('grant create on database %I to slotwise_booking_owner, slotwise_notifier_owner', current_database());
end
$$;

-- The exclusion constraint on seats compares text and integers in a GiST index.
create extension if not exists btree_gist;
