package sendlog_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/dbtest"
)

const aBooking = "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"

// announcement is an event of room-7 that happened now.
func announcement(version int64) sendlog.Announcement {
	return sendlog.Announcement{
		Event: id.Event(aBooking, version), Type: string(event.Confirmed), Booking: aBooking, Resource: "room-7", Version: version,
		At: time.Now().Truncate(time.Microsecond), Body: fmt.Appendf(nil, `{"version":%d,"text":"<ä>"}`, version),
	}
}

// endpoint writes one that is told everything, an hour old.
func (f fixture) endpoint(name string) {
	f.t.Helper()
	f.exec(`insert into notifier.endpoints (id, url, created_at) values ($1, 'https://hooks.example/', now() - interval '1 hour')`, name)
}

func (f fixture) planEvents(messages []sendlog.Message, events ...sendlog.Announcement) []string {
	f.t.Helper()
	keys, err := f.PlanEvents(f.ctx(), messages, events)
	if err != nil {
		f.t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// states are all webhooks, as "key state: reason".
func (f fixture) states() []string {
	f.t.Helper()
	rows, _ := f.db.Admin.Query(f.ctx(), `
		select key || ' ' || state || coalesce(': ' || reason, '') from notifier.send_log where channel = 'webhook' order by key`)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.t.Fatal(err)
	}
	return all
}

func (f fixture) wantStates(want ...string) {
	f.t.Helper()
	if got := f.states(); !slices.Equal(got, want) {
		f.t.Errorf("webhooks are %q\nwant         %q", got, want)
	}
}

// One row for each endpoint that was there before the event, is not deleted and wants it (B116).
func TestB116OneRowAnEndpoint(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	for name, sql := range map[string]string{
		"all":           ``,
		"off":           `enabled = false, disabled_at = now(), disabled_reason = 'by hand'`,
		"their-type":    `event_types = '{booking.v1.cancelled,booking.v1.confirmed}'`,
		"other-type":    `event_types = '{booking.v1.cancelled}'`,
		"part-of-type":  `event_types = '{booking.v1}'`,
		"their-room":    `resources = '{room-8,room-7}'`,
		"other-room":    `resources = '{room-8}'`,
		"gone":          `deleted_at = now(), enabled = false, disabled_at = now(), disabled_reason = 'deleted', url = null`,
		"young":         `created_at = now() + interval '1 minute'`,
		"b125-no-url":   `url = null`,
		"paused-by-all": `failing_since = now()`,
	} {
		f.endpoint(name)
		if sql != "" {
			f.exec(`update notifier.endpoints set `+sql+` where id = $1`, name)
		}
	}
	booking := f.book()
	mails := []sendlog.Message{mail(booking, sendlog.Confirm, 1)}
	e := announcement(1)
	key := func(endpoint string) string { return id.Webhook(e.Event, endpoint) }
	want := []string{mails[0].Key, key("all"), key("b125-no-url"), key("off"), key("paused-by-all"), key("their-room"), key("their-type")}
	if got := f.planEvents(mails, e); !slices.Equal(got, want) {
		t.Errorf("planned %q\nwant    %q", got, want)
	}
	f.wantStates(key("all")+" planned", key("b125-no-url")+" planned", key("off")+" held: endpoint disabled",
		key("paused-by-all")+" planned", key("their-room")+" planned", key("their-type")+" planned")
	for range 2 {
		if got := f.planEvents(mails, e); len(got) != 0 {
			t.Errorf("planned again: %q", got)
		}
	}
	rows, _ := f.db.Admin.Query(f.ctx(), `
		select booking::text, kind, endpoint, version, role, urgency, copy, due_at, payload from notifier.send_log where key = $1`, key("all"))
	m, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[struct {
		Booking, Kind, Endpoint string
		Version                 int64
		Role                    *string
		Urgency, Copy           int
		DueAt                   time.Time
		Payload                 sendlog.Facts
	}])
	if err != nil {
		t.Fatal(err)
	}
	if m.Booking != aBooking || m.Kind != "webhook" || m.Endpoint != "all" || m.Version != 1 || m.Role != nil || m.Urgency != 0 || m.Copy != 1 ||
		!m.DueAt.Equal(e.At) || !bytes.Equal(m.Payload.Event, e.Body) {
		t.Errorf("planned %+v", m)
	}
}

// An event without mails owes webhooks as well, to an endpoint that another process has just
// made too; and once there is none any more, nothing.
func TestPlanEventsOfANewEndpoint(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	if got := f.planEvents(nil, announcement(1)); len(got) != 0 {
		t.Errorf("planned %q", got)
	}
	f.endpoint("we_1")
	mails := []sendlog.Message{mail(f.book(), sendlog.Confirm, 1)}
	for version := int64(2); version < 4; version++ {
		if got := f.planEvents(mails, announcement(version)); !slices.Contains(got, id.Webhook(id.Event(aBooking, version), "we_1")) {
			t.Errorf("planned %q", got)
		}
		select {
		case <-f.WokenWebhooks():
		default:
			t.Error("nobody was woken")
		}
	}
	f.exec(`select notifier.delete_endpoint('we_1', 'anna')`)
	for version := int64(4); version < 6; version++ {
		if got := f.planEvents(nil, announcement(version)); len(got) != 0 {
			t.Errorf("planned %q", got)
		}
	}
	many := make([]sendlog.Announcement, 1201)
	for i := range many {
		many[i] = announcement(int64(i + 10))
	}
	f.endpoint("we_2")
	for _, want := range []int{len(many), 0} {
		if got := f.planEvents(nil, many...); len(got) != want {
			t.Errorf("planned %d, want %d", len(got), want)
		}
	}
}

// B117: an endpoint is disabled while a planner that has seen it enabled has not committed. The
// planner waits for somebody else's row here.
func TestB117DisabledWhilePlanning(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	f.endpoint("we_1")
	f.planEvents(nil, announcement(1)) // it knows that there are endpoints
	first, second := announcement(2), announcement(3)
	other, err := f.db.Admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // rolled back below
	if _, err := other.Exec(t.Context(), `
		insert into notifier.send_log (key, channel, kind, endpoint, urgency, state, due_at)
		values ($1, 'webhook', 'webhook', 'we_1', 0, 'planned', now())`, id.Webhook(second.Event, "we_1")); err != nil {
		t.Fatal(err)
	}
	planned, disabled := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := f.PlanEvents(f.ctx(), nil, []sendlog.Announcement{first, second})
		planned <- err
	}()
	f.waitsForLocks(1)
	go func() {
		_, err := f.db.Pool("slotwise_notifier").Exec(f.ctx(), `select notifier.disable_endpoint('we_1', 'too slow', 'anna')`)
		disabled <- err
	}()
	f.waitsForLocks(2)
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-planned; err != nil {
		t.Error(err)
	}
	if err := <-disabled; err != nil {
		t.Error(err)
	}
	const held = " held: endpoint disabled"
	f.wantStates(id.Webhook(id.Event(aBooking, 1), "we_1")+held, id.Webhook(first.Event, "we_1")+held, id.Webhook(second.Event, "we_1")+held)
}

// The other way round: the planner comes while somebody disables.
func TestB117PlanningWhileDisabled(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	f.endpoint("we_1")
	f.planEvents(nil, announcement(1))
	tx, err := f.db.Pool("slotwise_notifier").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // committed below
	if _, err := tx.Exec(t.Context(), `select notifier.disable_endpoint('we_1', 'too slow', 'anna')`); err != nil {
		t.Fatal(err)
	}
	planned := make(chan error, 1)
	go func() {
		_, err := f.PlanEvents(f.ctx(), nil, []sendlog.Announcement{announcement(2)})
		planned <- err
	}()
	f.waitsForLocks(1)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-planned; err != nil {
		t.Error(err)
	}
	const held = " held: endpoint disabled"
	f.wantStates(id.Webhook(id.Event(aBooking, 1), "we_1")+held, id.Webhook(id.Event(aBooking, 2), "we_1")+held)
}

// waitsForLocks waits until n sessions of this database wait for a lock.
func (f fixture) waitsForLocks(n int) {
	f.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		var waiting int
		err := f.db.Admin.QueryRow(f.ctx(), `
			select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`).Scan(&waiting)
		if err != nil {
			f.t.Fatal(err)
		}
		if waiting == n {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%d sessions wait for locks, want %d", waiting, n)
		}
	}
}

// Many plan the same events for the same endpoints at once: each row once, and nobody loses.
func TestPlannersAtOnce(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	for i := range 5 {
		f.endpoint(fmt.Sprintf("we_%d", i))
	}
	events := make([]sendlog.Announcement, 40)
	for i := range events {
		events[i] = announcement(int64(i + 1))
	}
	const planners = 8
	counts := make(chan int, planners)
	for range planners {
		go func() {
			log := sendlog.New(f.db.Pool("slotwise_notifier"), sendlog.DefaultTimes())
			keys, err := log.PlanEvents(f.ctx(), nil, events)
			if err != nil {
				f.t.Error(err)
			}
			counts <- len(keys)
		}()
	}
	total := 0
	for range planners {
		total += <-counts
	}
	if total != 200 {
		t.Errorf("%d rows were planned, want 200", total)
	}
}

// What is closed is forgotten after 90 days, and so is what was held for an endpoint: its
// receiver has been away for that long.
func TestForgetWebhooks(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	f.endpoint("we_1")
	for version := range int64(4) {
		f.planEvents(nil, announcement(version+1))
	}
	key := func(version int64) string { return id.Webhook(id.Event(aBooking, version), "we_1") }
	f.exec(`update notifier.send_log set state = 'held', reason = 'endpoint disabled', created_at = now() - interval '91 days' where key = $1`, key(1))
	f.exec(`update notifier.send_log set state = 'sent', accepted_at = now(), created_at = now() - interval '91 days' where key = $1`, key(2))
	f.exec(`update notifier.send_log set created_at = now() - interval '91 days' where key = $1`, key(3))
	f.exec(`update notifier.send_log set state = 'held', reason = 'too many tries', created_at = now() - interval '89 days' where key = $1`, key(4))
	if n, err := f.Forget(f.ctx()); n != 2 || err != nil {
		t.Errorf("%d forgotten: %v", n, err)
	}
	f.wantStates(key(3)+" planned", key(4)+" held: too many tries")
}

// BenchmarkPlanEvents tells what a batch of a hundred events costs that owe 100 mails and n webhooks.
func BenchmarkPlanEvents(b *testing.B) {
	for _, endpoints := range []int{0, 1, 10} {
		b.Run(fmt.Sprintf("endpoints=%d", endpoints), func(b *testing.B) {
			db := dbtest.New(b)
			log := sendlog.New(db.Pool("slotwise_notifier"), sendlog.DefaultTimes())
			for i := range endpoints {
				if _, err := db.Admin.Exec(b.Context(), `insert into notifier.endpoints (id, url, created_at) values ($1, 'https://hooks.example/', now() - interval '1 hour')`, fmt.Sprintf("we_%d", i)); err != nil {
					b.Fatal(err)
				}
			}
			version := int64(0)
			for b.Loop() {
				mails, events := make([]sendlog.Message, 100), make([]sendlog.Announcement, 100)
				for i := range mails {
					version++
					mails[i], events[i] = mail(aBooking, sendlog.Confirm, version), announcement(version)
				}
				if _, err := log.PlanEvents(b.Context(), mails, events); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/100, "µs/event")
		})
	}
}
