package sendlog_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

// fill makes bookings, each with a sent confirmation and, of every eighth, a reminder that is
// planned for later.
func (f fixture) fill(bookings int) {
	f.t.Helper()
	f.exec(`insert into booking.customers (id, address) values ('00000000-0000-4000-8000-000000000000', 'many@customers.example')`)
	f.exec(`insert into booking.bookings (id, resource, status, starts_at, ends_at, seats, version, start_version, told_customer, told_host, created_at, changed_at)
		select gen_random_uuid(), 'room-7', 'confirmed', now() + interval '90 days', now() + interval '90 days 1 hour', 1, 1, 1, 1, 1, now(), now()
		from generate_series(1, $1)`, bookings)
	f.exec(`insert into booking.contacts (booking, customer, name, address, locale, note)
		select id, '00000000-0000-4000-8000-000000000000', 'Ada', 'many@customers.example', 'en', '' from booking.bookings on conflict do nothing`)
	f.exec(`insert into notifier.send_log (key, channel, booking, kind, version, start_version, role, urgency, state, due_at, accepted_at)
		select 'email-confirm-' || id || '-v1', 'email', id, 'confirm', 1, 1, 'customer', 0, 'sent', now(), now() from booking.bookings on conflict do nothing`)
	f.exec(`insert into notifier.send_log (key, channel, booking, kind, version, start_version, role, urgency, state, due_at)
		select 'reminder-' || id || '-v1', 'email', id, 'reminder', 1, 1, 'customer', 2, 'planned', now() + random() * interval '80 days' from booking.bookings
		where abs(hashtext(id::text)) % 8 = 0`)
}

// B27: however many mails are sent or wait for later, the due ones are found at once. The plan
// is the one that was made when the log was empty, as on the day of the installation.
func TestB27DueAmongMany(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	f.plan(mail(f.book(), sendlog.Confirm, 1))
	f.write(f.one(), sendlog.Accepted, "250 ok")
	f.fill(30_000)
	for range 50 {
		f.plan(mail(f.book(), sendlog.Confirm, 1))
	}
	var took []time.Duration
	for range 12 {
		start := time.Now()
		hands := f.hand(4)
		took = append(took, time.Since(start))
		if len(hands) != 4 {
			t.Fatalf("%d in hand", len(hands))
		}
		for _, h := range hands {
			f.write(h, sendlog.Accepted, "250 ok")
		}
	}
	slices.Sort(took)
	t.Logf("a hand takes %s", took[len(took)/2]) // the plans below are what is tested: machines are noisy
	f.plans()
	f.exec(`analyze`)
	f.plans()
}

// plans fails when the generic plan of a statement reads a whole table that grows.
func (f fixture) plans() {
	f.t.Helper()
	conn, err := pgx.Connect(f.ctx(), f.db.URL("slotwise_notifier"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close(f.ctx())
	if _, err := conn.Exec(f.ctx(), sendlog.ForSession); err != nil {
		f.t.Fatal(err)
	}
	for name, s := range sendlog.Statements {
		types, nulls := "", ""
		if n := len(s.Types); n > 0 {
			types, nulls = "("+strings.Join(s.Types, ",")+")", "("+strings.Repeat("null, ", n-1)+"null)"
		}
		var text string
		if _, err := conn.Exec(f.ctx(), `deallocate all`); err != nil {
			f.t.Fatal(err)
		}
		if _, err := conn.Exec(f.ctx(), `prepare s `+types+` as `+s.SQL); err != nil {
			f.t.Fatalf("%s: %v", name, err)
		}
		if err := conn.QueryRow(f.ctx(), `explain (format json) execute s `+nulls, pgx.QueryExecModeSimpleProtocol).Scan(&text); err != nil {
			f.t.Fatalf("%s: %v", name, err)
		}
		var plan []struct{ Plan node }
		if err := json.Unmarshal([]byte(text), &plan); err != nil {
			f.t.Fatal(err)
		}
		for _, n := range plan[0].Plan.all() {
			if n.Type == "Seq Scan" && slices.Contains([]string{"send_log", "hands", "bookings", "contacts", "suppressions"}, n.Table) {
				f.t.Errorf("%s reads all of %s:\n%s", name, n.Table, plan[0].Plan.draw(0))
			}
		}
	}
}

// node is a node of a plan.
type node struct {
	Type  string `json:"Node Type"`
	Table string `json:"Relation Name"`
	Index string `json:"Index Name"`
	Below []node `json:"Plans"`
}

func (n node) all() []node {
	all := []node{n}
	for _, b := range n.Below {
		all = append(all, b.all()...)
	}
	return all
}

func (n node) draw(depth int) string {
	text := fmt.Sprintf("%s%s %s %s\n", strings.Repeat("  ", depth), n.Type, n.Table, n.Index)
	for _, b := range n.Below {
		text += b.draw(depth + 1)
	}
	return text
}
