-- $1 endpoints. Locked before any of their rows, as everybody locks them: what becomes of a row
-- is then judged by what the endpoint is.
select from notifier.endpoints e
where e.id = any ($1)
order by e.id
for no key update
