package plan_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/services/notifier/internal/plan"
	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/seed"
)

// Issue 3 §4.3: a stale reminder sends nothing. The good one shows that the loop works.
func TestStaleReminderPlansNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(w.reminders())
	book := func(start, lead time.Duration) seed.Booking {
		return w.bookings.Book(seed.Booking{Resource: "room-7", Start: time.Now().Add(start), Lead: lead})
	}
	fire := func(booking string, startVersion int64) {
		w.publish(event.Reminder{Booking: booking, StartVersion: startVersion}.DueSubject(), "", nil)
	}
	moved := book(2*time.Hour, time.Hour)
	w.bookings.Move(moved, moved.Start.Add(time.Hour))
	fire(moved.ID, 1)
	cancelled := book(2*time.Hour, time.Hour)
	w.bookings.Cancel(cancelled)
	fire(cancelled.ID, 1)
	begun := book(-time.Minute, time.Hour)
	fire(begun.ID, 1)
	none := book(2*time.Hour, 0)
	fire(none.ID, 1)
	fire("00000000-0000-4000-8000-000000000000", 1) // nobody's
	good := book(time.Hour, 2*time.Hour)
	noted := w.bookings.Annotate(good, "a change that does not move the start")
	fire(good.ID, 1)
	fire(good.ID, 1) // twice, as after a crash between firing and removal
	w.settled(topology.Reminders, topology.NotifierReminders)
	w.wantKeys(id.Reminder(good.ID, 1))
	if got := w.planned()[0]; !got.DueAt.Equal(noted.RemindAt.Truncate(time.Microsecond)) || got.Urgency != 3 {
		t.Errorf("%+v, want due at %s and, an hour late, with the backlog", got, noted.RemindAt)
	}
}

// NATS's clock is ahead: the row waits for remind_at on the database's clock.
func TestReminderThatFiresEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(w.reminders())
	b := w.bookings.Book(seed.Booking{Resource: "room-7", Start: time.Now().Add(3 * time.Hour), Lead: time.Hour})
	w.publish(event.Reminder{Booking: b.ID, StartVersion: 1}.DueSubject(), "", nil)
	w.settled(topology.Reminders, topology.NotifierReminders)
	w.wantKeys(id.Reminder(b.ID, 1))
	if got := w.planned()[0]; !got.DueAt.Equal(b.RemindAt.Truncate(time.Microsecond)) || got.Urgency != 2 || got.State != "planned" {
		t.Errorf("%+v, want planned and due at %s", got, b.RemindAt)
	}
	if n := w.bus.Messages(t.Context(), topology.Reminders); n != 0 {
		t.Errorf("%d messages wait in REMINDERS, want 0: nothing is scheduled again", n)
	}
}

func TestReminderWithABadSubjectEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(w.reminders())
	w.publish("reminder.due.x.1", "", nil)
	b := w.bookings.Book(seed.Booking{Resource: "room-7", Start: time.Now().Add(time.Hour), Lead: 2 * time.Hour})
	w.publish(event.Reminder{Booking: b.ID, StartVersion: 1}.DueSubject(), "", nil)
	w.settled(topology.Reminders, topology.NotifierReminders)
	w.wantKeys(id.Reminder(b.ID, 1))
	stream, err := w.bus.JetStream(bustest.Admin).Stream(t.Context(), topology.Reminders)
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != 0 {
		t.Errorf("%d messages are left, want 0", n)
	}
}

// B29: behind a pooler in transaction mode nothing may be prepared.
func TestB29ExecModes(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	bookings := seed.New(t, db.Admin)
	bookings.Resource(seed.Resource{ID: "room-7"})
	b := bookings.Book(seed.Booking{Resource: "room-7", Lead: time.Hour})
	fired := event.Reminder{Booking: b.ID, StartVersion: 1}
	for _, mode := range dbtest.ExecModes() {
		config := db.Pool("slotwise_notifier").Config()
		config.ConnConfig.DefaultQueryExecMode = mode
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		owed, err := plan.FindOwed(plan.Reminders{DB: pool}, t.Context(), []event.Reminder{fired})
		pool.Close()
		if err != nil || len(owed) != 1 || !owed[fired].RemindAt.Equal(b.RemindAt.Truncate(time.Microsecond)) {
			t.Errorf("%s: owed %+v, %v", mode, owed, err)
		}
	}
}
