-- $1 the last id of the page before, $2 how long a published row is kept, $3 rows a page
-- Only published rows are touched, which nobody else locks. Ids follow created_at closely
-- enough: beyond a page that ends with a young row there is nothing old.
with page as materialized (
    select id, created_at, published_at
    from booking.outbox_events
    where id > $1
      and id <= (select mark from notifier.progress_for_booking)
    order by id
    limit $3::int
), gone as (
    delete from booking.outbox_events e
    using page
    where e.id = page.id
      and page.published_at < clock_timestamp() - $2::interval
    returning e.id
)
select (select count(*) from gone),
       coalesce((select max(id) from page), 0),
       (select count(*) = $3::int
               and max(created_at) < clock_timestamp() - $2::interval
        from page)
