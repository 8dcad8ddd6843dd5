-- $1 resource, $2 start, $3 end, $4 capacity, $5 numbers to try, $6 how many, $7 booking whose own seats don't count
-- One probe of the exclusion constraint's index for each number: 0.02 ms, measured.
select array(
           select number
           from unnest($5::int[]) number
           where not exists (
               select from booking.seats
               where resource = $1
                 and seat = number
                 and during && tstzrange($2, $3)
                 and booking is distinct from $7::uuid
               offset 0)
           limit $6::int),
       exists (
           select from booking.seats
           where resource = $1
             and seat > $4
             and during && tstzrange($2, $3)
             and booking is distinct from $7::uuid)
