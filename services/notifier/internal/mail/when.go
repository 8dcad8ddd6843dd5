package mail

import (
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // images have no zone files
)

// ErrZone says that a booking's time zone is not known to this release.
var ErrZone = errors.New("unknown time zone")

// span is a time from start to end as people in the zone read it.
type span struct {
	start, end time.Time
	zone       string
}

// inZone returns the span in zone, an IANA name, or [ErrZone].
func inZone(start, end time.Time, zone string) (span, error) {
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "" || zone == "Local" { // which Go takes for UTC and for this machine's
		return span{}, fmt.Errorf("%w: %q", ErrZone, zone)
	}
	return span{start: start.In(location), end: end.In(location), zone: zone}, nil
}

// short is for subjects: Thu 3 Dec 2026, 14:00.
func (s span) short() string { return s.start.Format("Mon 2 Jan 2006, 15:04") }

// lines tell day and time, and below it the zone's name and offset from UTC. Where the clocks
// change in between, each time has its own offset.
func (s span) lines() []string {
	const day, clock = "Monday, 2 January 2006, ", "15:04"
	from, to := s.start.Format(day+clock), s.end.Format(clock)
	if s.start.Format(time.DateOnly) != s.end.Format(time.DateOnly) {
		to = s.end.Format(day + clock)
	}
	if offset(s.start) != offset(s.end) {
		return []string{fmt.Sprintf("%s (%s) to %s (%s)", from, offset(s.start), to, offset(s.end)), s.zone}
	}
	return []string{from + " to " + to, fmt.Sprintf("%s (%s)", s.zone, offset(s.start))}
}

func offset(t time.Time) string { return "UTC" + t.Format("-07:00") }
