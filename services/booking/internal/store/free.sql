-- $1 resource, $2 start, $3 end, $4 capacity, $5 how many, $6 booking whose own seats don't count
-- An overlapping seat ends before the end plus the longest booking (seats_length), which bounds
-- the scan of seats_overlap. Of the first "taken and asked for" numbers enough are free.
with taken as materialized (
    select seat
    from booking.seats
    where resource = $1
      and upper(during) > $2
      and upper(during) < $3::timestamptz + interval '1440 minutes'
      and lower(during) < $3
      and booking is distinct from $6::uuid
), free as (
    select generate_series(1, least($4::int, (select count(*) from taken)::int + $5::int)) as seat
    except
    select seat from taken
    order by 1
    limit $5::int
)
select array(select seat from free order by seat)::int[],
       coalesce((select max(seat) from taken), 0)
