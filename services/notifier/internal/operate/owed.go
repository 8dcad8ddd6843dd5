package operate

import (
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/pkg/ops/message"
)

// auditAge is how old an outbox row is when the audit plans it, at the latest: it leaves rows
// alone for two minutes and passes every minute.
const auditAge = 3 * time.Minute

// owed tells what the booking owes and nobody has planned yet, and why. It returns nothing for
// a person who was erased.
func owed(t message.Trace, v view) []message.Owed {
	list := []message.Owed{}
	f := t.Facts
	if f == nil || f.Erased {
		return list
	}
	for _, told := range []struct {
		role    string
		version int64
	}{{"customer", f.ToldCustomer}, {"host", f.ToldHost}} {
		if told.version > 0 && v.mail(told.role, told.version) == nil {
			list = append(list, message.Owed{Kind: "mail", Role: told.role, Version: told.version, Verdict: unplanned(t, v, told.version)})
		}
	}
	if f.Status == string(event.StatusConfirmed) && !planned(t, id.Reminder(t.Booking, f.StartVersion)) {
		list = append(list, message.Owed{Kind: "reminder", Role: "customer", Version: f.StartVersion, Verdict: reminder(t)})
	}
	return list
}

func planned(t message.Trace, key string) bool {
	return slices.ContainsFunc(t.Messages, func(m message.Message) bool { return m.Key == key })
}

// unread finds the held row that stands for the event of a version.
func unread(t message.Trace, version int64) *message.Message {
	key := id.Unreadable(id.Event(t.Booking, version))
	if i := slices.IndexFunc(t.Messages, func(m message.Message) bool { return m.Key == key }); i >= 0 {
		return &t.Messages[i]
	}
	return nil
}

// unplanned tells why the mail of a version has no message.
func unplanned(t message.Trace, v view, version int64) string {
	if event := unread(t, version); event != nil {
		return fmt.Sprintf("not planned: the event of v%d could not be read, see %s: %s", version, event.Key, v.verdict(*event))
	}
	if t.Facts.End.Add(30 * 24 * time.Hour).Before(t.At) {
		return "no record any more: messages are kept 90 days, and until 30 days after the booking's end"
	}
	i := slices.IndexFunc(t.Outbox, func(o message.Outbox) bool { return o.MessageID == id.Event(t.Booking, version) })
	if i < 0 {
		return fmt.Sprintf("not planned, and the event of v%d is not kept in the outbox: republish it, or resend", version)
	}
	o := t.Outbox[i]
	var why string
	switch {
	case o.ParkedAt != nil:
		why = fmt.Sprintf("the relay parked v%d at %s after %s: %s", version, at(o.ParkedAt), count(o.Attempts, "refusal", "refusals"), line(o.LastError))
	case o.PublishedAt == nil && o.Attempts > 0:
		why = fmt.Sprintf("the relay could not publish v%d yet (%s, the last: %s)", version, count(o.Attempts, "refusal", "refusals"), line(o.LastError))
	case o.PublishedAt == nil:
		why = fmt.Sprintf("the relay has not published v%d, which waits since %s", version, at(&o.CreatedAt))
	default:
		why = fmt.Sprintf("v%d was published at %s, the planner has not come to it", version, at(o.PublishedAt))
	}
	byAudit := o.CreatedAt.Add(auditAge)
	if byAudit.After(t.At) {
		return "not planned yet: " + why + "; the audit plans it by " + at(&byAudit)
	}
	return "not planned yet: " + why + "; the audit, which should have planned it by " + at(&byAudit) + ", last passed at " + at(&t.Audit.PassedAt)
}

// reminder tells how the reminder for the present start stands that has no message.
func reminder(t message.Trace) string {
	due := t.Facts.RemindAt
	switch {
	case due == nil:
		return "none owed: the start was too near when it was set, or the resource has no reminders"
	case t.Facts.Start.Before(t.At):
		return "not planned, and never will be: the booking has begun"
	case due.Before(t.At):
		return "not planned yet: was due at " + at(due) + "; the audit plans it within six minutes of that and last passed at " + at(&t.Audit.PassedAt)
	case t.Reminders.Error != "":
		return "due at " + at(due) + "; whether it is scheduled is not known: " + t.Reminders.Error
	case !scheduled(t):
		return "due at " + at(due) + ", not scheduled: the scheduler looks every hour for what is missing, and the audit plans it without"
	}
	return "scheduled for " + at(due)
}

func scheduled(t message.Trace) bool {
	subject := event.Reminder{Booking: t.Booking, StartVersion: t.Facts.StartVersion}.ScheduleSubject()
	return slices.ContainsFunc(t.Reminders.Found, func(r message.Reminder) bool { return r.Subject == subject })
}
