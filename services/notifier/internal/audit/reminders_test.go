package audit_test

import (
	"encoding/json"
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

// B27: the cost follows new rows and the bookings of the reminder window, not what is stored,
// whether PostgreSQL knows the tables' sizes yet or not.
func TestB27CostIsThatOfWhatIsNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn, err := pgx.Connect(t.Context(), w.db.URL("slotwise_notifier"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	prepared := map[string]string{
		"events":    `prepare events (bigint, interval, bigint) as ` + audit.BehindSQL + `; execute events(0, '2 minutes', 100)`,
		"reminders": `prepare reminders (interval, bigint) as ` + audit.MissedSQL + `; execute reminders('5 minutes', 100)`,
	}
	for _, prepare := range prepared { // while the tables are empty: the worst moment
		if _, err := conn.PgConn().Exec(t.Context(), `set plan_cache_mode = force_generic_plan; `+prepare).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	fill(w, 5000)
	// Years of bookings behind, a year ahead, 8 in the window.
	w.exec(`
		insert into booking.bookings (id, resource, status, starts_at, ends_at, seats, version, start_version, remind_at, told_customer, told_host, created_at, changed_at)
		select gen_random_uuid(), 'room-7', 'confirmed', at, at + interval '1 hour', 1, 1, 1, at - interval '1 day', 1, 0, at, at
		from (select now() - interval '700 days' + n * interval '3 hours' as at from generate_series(1, 8000) n) s`)
	w.exec(`
		insert into notifier.send_log (key, channel, booking, kind, version, start_version, role, urgency, state, accepted_at, due_at)
		select 'k-' || id, 'email', id, 'reminder', 1, 1, 'customer', 2, 'sent', now(), now()
		from booking.bookings`)
	check := func(when string) {
		for execute, most := range map[string]int{`execute events(4000, '2 minutes', 100)`: 300, `execute reminders('5 minutes', 100)`: 300} {
			answers, err := conn.PgConn().Exec(t.Context(), `explain (analyze, format json) `+execute).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			text := answers[0].Rows[0][0]
			if n := touched(t, text); n > most {
				t.Errorf("%s, %s touches %d rows, want at most %d:\n%s", when, execute, n, most, text)
			}
		}
	}
	check("with plans from when the tables were empty")
	w.exec(`vacuum analyze booking.bookings, booking.outbox_events, notifier.send_log`)
	check("with statistics")
}

// node is one step of a plan that was run.
type node struct {
	Rows    float64 `json:"Actual Rows"`
	Removed float64 `json:"Rows Removed by Filter"`
	Recheck float64 `json:"Rows Removed by Index Recheck"`
	Loops   float64 `json:"Actual Loops"`
	Plans   []node
}

func (n node) touched() int {
	sum := int((n.Rows + n.Removed + n.Recheck) * n.Loops)
	for _, p := range n.Plans {
		sum += p.touched()
	}
	return sum
}

// touched is how many rows the steps of a plan have seen, all together.
func touched(t *testing.T, explained []byte) int {
	t.Helper()
	var plans []struct{ Plan node }
	if err := json.Unmarshal(explained, &plans); err != nil {
		t.Fatal(err)
	}
	return plans[0].Plan.touched()
}
