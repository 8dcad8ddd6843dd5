-- When each endpoint may be given its next delivery: its rate, and the rest that it asked for by
-- Retry-After. One row an endpoint that has either; no row: at once.
create table notifier.endpoint_pace (
    endpoint text        not null,
    next_at  timestamptz not null,
    constraint endpoint_pace_pkey primary key (endpoint),
    constraint endpoint_pace_endpoint_fkey foreign key (endpoint) references notifier.endpoints (id)
);
comment on column notifier.endpoint_pace.next_at is 'the time until which what was handed has used up the rate (at most a second''s worth is saved up), or the end of the rest';
-- Changes with every delivery of an endpoint with a rate: its pages must have room for that.
alter table notifier.endpoint_pace set (fillfactor = 50);
grant select, insert, update on notifier.endpoint_pace to slotwise_notifier;
