// Package remind writes scheduled messages: one for each start that owes a reminder, on
// event.Reminder.ScheduleSubject, which JetStream moves to DueSubject at remind_at.
//
// Every write is create-only (the subject must be empty) and says nothing but which booking
// and which start. So it may be done any number of times, by any number of schedulers, in any
// order: who comes second changes nothing. A booking that moves or is cancelled leaves its old
// schedule behind, which fires once for nothing, because the notifier compares start versions.
//
// # Clocks and failures
//
// A reminder whose time has passed is not scheduled: the audit plans it. NATS's clock decides
// when a schedule fires; the notifier then waits for PostgreSQL's to reach remind_at. What
// could not be written comes again with the event's redelivery; what is lost is written again
// by package reconcile.
package remind
