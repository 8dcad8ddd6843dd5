-- When the last mails to a customer were owed, so that no address can be bombed with them. The
-- booking service keeps as many times as MAILS_PER_HOUR says and judges by them under the
-- customer's row. A constant default rewrites no row; the last release leaves the column alone.
alter table booking.customers add column mails_owed timestamptz[] not null default '{}';
comment on column booking.customers.mails_owed is 'when the last mails to this customer were owed, the oldest first';
