package booking

import (
	"regexp"
	"time"
)

// Limits of a resource.
const (
	MaxCapacity    = 10000
	MaxSlotMinutes = 1440
	MaxLead        = 366 * 24 * time.Hour
)

// Resource is what can be booked: a room (capacity 1), a course with many seats.
type Resource struct {
	ID           string // a slug, chosen once, never changed
	Name         string
	Zone         string // IANA time zone in which it lies
	Capacity     int    // seats at any one time
	SlotMinutes  int    // how long a booking lasts; it may begin at any time
	ReminderLead *time.Duration
	HostAddress  string // who is told about bookings; empty: nobody
	Retired      bool   // takes no new bookings; those it has may still change
}

var slug = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

// Check returns what is wrong with r, field by field.
func (r Resource) Check() []Fault {
	var faults faults
	if !slug.MatchString(r.ID) {
		faults.add("id", "must be 1 to 63 of a-z, 0-9 and hyphen")
	}
	faults.add("name", lineFault(r.Name, maxName))
	faults.add("zone", zoneFault(r.Zone))
	if r.Capacity < 1 || r.Capacity > MaxCapacity {
		faults.add("capacity", "must be from 1 to 10000")
	}
	if r.SlotMinutes < 1 || r.SlotMinutes > MaxSlotMinutes {
		faults.add("slot_minutes", "must be from 1 to 1440")
	}
	if r.ReminderLead != nil && (*r.ReminderLead < 0 || *r.ReminderLead > MaxLead) {
		faults.add("reminder_lead", "must be from 0 (no reminders) to 8784h (366 days)")
	}
	if r.HostAddress != "" {
		faults.add("host_address", addressFault(r.HostAddress))
	}
	return faults
}

// zoneFault says why name is no time zone. Every name of the IANA database begins with a
// capital letter; what else a machine's zone folder holds (localtime, posix/…, right/…) and
// Local mean something else elsewhere.
func zoneFault(name string) string {
	_, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" || name[0] < 'A' || name[0] > 'Z' {
		return "must be a time zone of the IANA database, such as Europe/Berlin"
	}
	return ""
}

// Slot is how long a new booking lasts.
func (r Resource) Slot() time.Duration { return time.Duration(r.SlotMinutes) * time.Minute }

// lead is how long before the start a reminder is due; fallback is the service's. 0: none.
func (r Resource) lead(fallback time.Duration) time.Duration {
	if r.ReminderLead != nil {
		return *r.ReminderLead
	}
	return fallback
}
