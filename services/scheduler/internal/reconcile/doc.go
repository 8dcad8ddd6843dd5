// Package reconcile makes the schedules again that JetStream has lost: hourly and at start it
// walks all bookings whose reminder lies ahead, asks REMINDERS which of their schedules are
// there, and writes those that are not.
//
// It asks by exact subjects, 500 at a time, with a direct get: REMINDERS is a work queue, and
// reading it by a consumer would delete what was read. Nothing is compared but presence, and
// every write is create-only, so passes of several schedulers may overlap.
//
// A schedule that fires between the question and the write is written again and fires again at
// once; the notifier then finds the reminder planned. A pass that fails is tried again after a
// minute; what it has written by then stays.
package reconcile
