package event

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/pkg/id"
)

// Reminder names the one reminder owed for the start that StartVersion set.
type Reminder struct {
	Booking      string `json:"booking"`
	StartVersion int64  `json:"start_version"`
}

// ErrSubject says that a NATS subject is not one of a reminder.
var ErrSubject = errors.New("not a reminder's subject")

// ScheduleSubject is where the reminder waits as a scheduled message.
func (r Reminder) ScheduleSubject() string { return r.subject("reminder.at.") }

// DueSubject is where the scheduled message fires.
func (r Reminder) DueSubject() string { return r.subject("reminder.due.") }

func (r Reminder) subject(prefix string) string {
	return prefix + r.Booking + "." + strconv.FormatInt(r.StartVersion, 10)
}

// ParseDueSubject reads a subject that [Reminder.DueSubject] made, or returns [ErrSubject].
func ParseDueSubject(subject string) (Reminder, error) {
	rest, ok := strings.CutPrefix(subject, "reminder.due.")
	booking, number, cut := strings.Cut(rest, ".")
	version, err := strconv.ParseInt(number, 10, 64)
	if !ok || !cut || err != nil || version < 1 || !id.IsBooking(booking) {
		return Reminder{}, fmt.Errorf("%w: %q", ErrSubject, subject)
	}
	return Reminder{Booking: booking, StartVersion: version}, nil
}
