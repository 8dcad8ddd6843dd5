package audit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/services/notifier/internal/audit"
	"github.com/slotwise/slotwise/testkit/seed"
)

// Issue 3 §4.7: a reminder lost inside its window is planned; one that was never due is not.
// B102 and B103 are among them.
func TestMissedReminders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// book returns a booking whose remind_at passed so long ago, with start so far ahead.
	book := func(passed, ahead time.Duration) seed.Booking {
		return w.bookings.Book(seed.Booking{Resource: "room-7", Start: time.Now().Add(ahead), Lead: ahead + passed})
	}
	lost := book(6*time.Minute, 2*time.Hour)
	longAgo := book(22*time.Hour, 2*time.Hour)
	shortLead := book(31*time.Second, 89*time.Second) // 2 minutes, a quarter of which has passed
	book(4*time.Minute, 2*time.Hour)                  // may still fire
	book(29*time.Second, 91*time.Second)
	book(-time.Hour, 3*time.Hour) // not due yet
	book(time.Hour, -time.Minute) // begun
	w.bookings.Cancel(book(6*time.Minute, 2*time.Hour))
	w.bookings.Move(book(6*time.Minute, 2*time.Hour), time.Now().Add(30*24*time.Hour))
	w.bookings.Book(seed.Booking{Resource: "room-7", Start: time.Now().Add(3 * time.Hour)}) // owes none: booked too late for one
	moved := book(6*time.Minute, 48*time.Hour)
	w.exec(`
		insert into notifier.send_log (key, channel, booking, kind, version, start_version, role, urgency, state, due_at)
		values ($1, 'email', $2, 'reminder', 1, 1, 'customer', 2, 'planned', now())`, id.Reminder(moved.ID, 1), moved.ID)
	moved = w.bookings.Move(moved, time.Now().Add(48*time.Hour)) // another start, with another reminder
	planned := book(6*time.Minute, 2*time.Hour)
	w.exec(`
		insert into notifier.send_log (key, channel, booking, kind, version, start_version, role, urgency, state, reason, due_at)
		values ($1, 'email', $2, 'reminder', 1, 1, 'customer', 2, 'skipped', 'discarded', now())`, id.Reminder(planned.ID, 1), planned.ID)
	changed := w.bookings.Annotate(book(6*time.Minute, 2*time.Hour), "a change that does not move the start")

	w.pass()
	w.wantKeys(
		id.Reminder(lost.ID, 1), id.Reminder(longAgo.ID, 1), id.Reminder(shortLead.ID, 1), id.Reminder(changed.ID, 1),
		id.Reminder(moved.ID, 1), id.Reminder(moved.ID, 2), id.Reminder(planned.ID, 1))
	var dueAt time.Time
	if err := w.db.Admin.QueryRow(t.Context(), `select due_at from notifier.send_log where key = $1`, id.Reminder(lost.ID, 1)).Scan(&dueAt); err != nil {
		t.Fatal(err)
	}
	if !dueAt.Equal(lost.RemindAt.Truncate(time.Microsecond)) {
		t.Errorf("due at %s, want %s", dueAt, lost.RemindAt)
	}
	if got := counted(t, w.audit)["reminder"]; got != 5 {
		t.Errorf("counted %.0f, want 5", got)
	}
}

// B27: the cost follows new rows and the bookings of the reminder window, not what is stored.
func TestB27StatementsUseIndexes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fill(w, 20_000)
	b := w.bookings.Book(seed.Booking{Resource: "room-7"})
	// Years of bookings behind, a year ahead, about 30 in the window.
	w.exec(`
		insert into booking.bookings
		select (b).*
		from (
			select jsonb_populate_record(b, jsonb_build_object(
			    'id', gen_random_uuid(), 'starts_at', s.at, 'ends_at', s.at + interval '1 hour', 'remind_at', s.at - interval '1 day')) as b
			from booking.bookings b, (select now() - interval '700 days' + n * interval '50 minutes' as at from generate_series(1, 30000) n) s
			where b.id = $1) copies`, b.ID)
	w.exec(`
		insert into notifier.send_log (key, channel, booking, kind, version, start_version, role, urgency, state, accepted_at, due_at)
		select 'k-' || id, 'email', id, 'reminder', 1, 1, 'customer', 2, 'sent', now(), now()
		from booking.bookings`)
	w.exec(`vacuum analyze booking.bookings, booking.outbox_events, notifier.send_log`)

	conn, err := pgx.Connect(t.Context(), w.db.URL("slotwise_notifier"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for name, statement := range map[string]string{
		"events":    `prepare q (bigint, interval, bigint) as ` + audit.BehindSQL + `; explain (analyze) execute q(19000, '2 minutes', 5000)`,
		"reminders": `prepare q (interval, bigint) as ` + audit.MissedSQL + `; explain (analyze) execute q('5 minutes', 5000)`,
	} {
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			answers, err := conn.PgConn().Exec(t.Context(), `set plan_cache_mode = `+mode+`; `+statement+`; deallocate q`).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			for _, a := range answers {
				for _, row := range a.Rows {
					text.WriteString(string(row[0]) + "\n")
				}
			}
			if got := text.String(); strings.Contains(got, "Seq Scan on outbox_events") || strings.Contains(got, "Seq Scan on bookings") ||
				strings.Contains(got, "Seq Scan on send_log") || !strings.Contains(got, "Index") {
				t.Errorf("%s with %s:\n%s", name, mode, got)
			}
		}
	}
}
