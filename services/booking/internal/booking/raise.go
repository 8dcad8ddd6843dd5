package booking

import "time"

// Raise makes b, as it was found after the database went back to an earlier point, the version
// after above, which is the highest that consumers have been told. They ignore a version that is
// not higher than the last they saw; without this they would ignore what b becomes next, and
// would take the changes that were lost for true. Customer and host are owed a mail, because
// the last one that they got may tell what was lost. When above is not higher nothing is
// changed.
func (b Booking) Raise(above int64, t Terms) Change {
	if above <= b.Version {
		return Change{Before: b, After: b, Kind: KindChanged}
	}
	after := b
	after.Version = above
	after.advance(t, telling{customer: true, host: true})
	if after.Status == Confirmed {
		after.schedule(t)
	} else {
		after.StartVersion, after.RemindAt = after.Version, time.Time{}
	}
	return Change{b, after, KindChanged, []string{"status", "start", "end", "seats"}}
}
