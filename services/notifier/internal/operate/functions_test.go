package operate_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/services/notifier/internal/plan"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

// Only the steps of the protocol are taken, whatever a filter matches.
func TestSteps(t *testing.T) {
	t.Parallel()
	states := []string{"planned", "handed", "sent", "refused", "unknown", "held", "skipped"}
	tests := map[string]map[string]string{ // operation: from: to
		"release": {"held": "planned"},
		"retry":   {"held": "planned", "refused": "planned"},
		"discard": {"planned": "skipped", "unknown": "skipped", "held": "skipped", "refused": "skipped"},
		"resend":  {},
	}
	for operation, steps := range tests {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			for _, state := range states {
				_, key := f.booked()
				f.customerOnly()
				f.exec(`update notifier.send_log set state = $2, reason = 'why', accepted_at = now(), token = gen_random_uuid(), handed_at = now(),
				               lease_until = case $2 when 'handed' then now() + interval '1 minute' end where key = $1`, key, state)
				f.exec(`select notifier.`+operation+`(jsonb_build_object('keys', jsonb_build_array($1::text)), 'anna')`, key)
				want := state
				if to, ok := steps[state]; ok {
					want = to
				}
				if got := one[string](f, `select state from notifier.send_log where key = $1`, key); got != want {
					t.Errorf("%s of %s makes it %s, want %s", operation, state, got, want)
				}
			}
		})
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	f := open(t)
	_, key := f.booked()
	f.customerOnly()
	for range 3 { // the third mark holds it
		f.dueNow()
		f.ended(sendlog.NoAnswer, "no answer after the dot")
	}
	f.want(key, "held: too often no answer after the final dot")
	if got := f.keys(`select notifier.release('{"reason": "NO ANSWER"}', 'anna')`); !slices.Equal(got, []string{key}) {
		t.Fatalf("released %v", got)
	}
	f.want(key, "planned")
	quiet := one[bool](f, `select due_at = quiet_until and urgency = 3 from notifier.send_log where key = $1`, key)
	if !quiet {
		t.Error("it is due before its quiet time has ended, or not as backlog")
	}
	f.dueNow()
	f.ended(sendlog.NoAnswer, "no answer after the dot")
	f.want(key, "held: too often no answer after the final dot") // at the next mark
	f.exec(`select notifier.release('{"states": ["held"]}', 'anna')`)
	f.dueNow()
	f.ended(sendlog.Accepted, "250 ok")
	f.want(key, "sent")
}

// What was held because it was too old is not held again for the same age.
func TestReleaseAfterAnOutage(t *testing.T) {
	t.Parallel()
	f := open(t)
	_, key := f.booked()
	f.customerOnly()
	f.exec(`update notifier.send_log set due_at = now() - interval '30 hours'`)
	if hands, _, err := f.log.Hand(t.Context(), 1, 1); err != nil || len(hands) != 0 {
		t.Fatalf("%d in hand: %v", len(hands), err)
	}
	f.want(key, "held: older than the catch-up limit")
	f.exec(`select notifier.release('{"reason": "catch-up"}', 'anna')`)
	f.ended(sendlog.Accepted, "250 ok")
	f.want(key, "sent")
}

// Released as it is, one more refusal is one too many; retried, it has all its tries again.
func TestReleaseAndRetryAfterTooManyTries(t *testing.T) {
	t.Parallel()
	for operation, want := range map[string]string{"release": "held: too many tries: 451 later", "retry": "planned: 451 later"} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			_, key := f.booked()
			f.customerOnly()
			f.exec(`update notifier.send_log set attempts = 19, first_4xx_at = now() - interval '1 day'`)
			f.ended(sendlog.Again, "451 later")
			f.want(key, "held: too many tries: 451 later")
			f.exec(`select notifier.`+operation+`(jsonb_build_object('keys', jsonb_build_array($1::text)), 'anna')`, key)
			f.ended(sendlog.Again, "451 later")
			f.want(key, want)
		})
	}
}

// A refused address is a row with code, text and time; it can be sent again by its id.
func TestB74RefusedIsARowAndCanBeResent(t *testing.T) {
	t.Parallel()
	f := open(t)
	b, key := f.booked()
	f.customerOnly()
	f.ended(sendlog.Rejected, "550 5.1.1 no such user here")
	var state, reason, answer string
	var when time.Time
	err := f.db.Pool("slotwise_notifier").QueryRow(t.Context(), `
		select state, reason, answer, answered_at from notifier.list('{"reason": "5.1.1"}')`).Scan(&state, &reason, &answer, &when)
	if err != nil || state != "refused" || reason != "550 5.1.1 no such user here" || answer != reason || time.Since(when) > time.Minute {
		t.Fatalf("%s, %q, %q, %s: %v", state, reason, answer, when, err)
	}
	want := id.Mail{Kind: "confirm", Booking: b.ID, Version: 1, Copy: 2}.String()
	if got := f.keys(`select notifier.resend(jsonb_build_object('keys', jsonb_build_array($1::text)), 'anna')`, key); !slices.Equal(got, []string{want}) {
		t.Fatalf("planned %v, want %s", got, want)
	}
	f.want(key, "refused: 550 5.1.1 no such user here")
	f.ended(sendlog.Accepted, "250 ok")
	f.want(want, "sent")
}

// The mail of the present state says the same, and has the ids of package id.
func TestResend(t *testing.T) {
	t.Parallel()
	f := open(t)
	b, _ := f.booked()
	f.ended(sendlog.Accepted, "250 ok")
	b = f.Move(b, b.Start.Add(25*time.Hour))
	f.planned(b)
	f.ended(sendlog.Accepted, "250 ok")
	b = f.Annotate(b, "a note owes nobody a mail")

	confirm := func(host bool, copies int) string {
		return id.Mail{Kind: "confirm", Booking: b.ID, Version: 2, Host: host, Copy: copies}.String()
	}
	byBooking := fmt.Sprintf(`select notifier.resend('{"booking": "%s"}', 'anna') order by 1`, b.ID)
	if got, want := f.keys(byBooking), []string{confirm(false, 2), confirm(true, 2)}; !slices.Equal(got, want) {
		t.Fatalf("planned %v, want %v", got, want)
	}
	if got := f.keys(byBooking); len(got) != 0 {
		t.Errorf("planned %v while copies are on their way", got)
	}
	var facts sendlog.Facts
	want := plan.Owed(b.Event)
	if len(want) != 0 {
		t.Fatal("the note owes a mail")
	}
	facts = one[sendlog.Facts](f, `select payload from notifier.send_log where key = $1`, confirm(false, 2))
	if moved := one[sendlog.Facts](f, `select payload from notifier.send_log where kind = 'move' and role = 'customer'`); !reflect.DeepEqual(facts, moved) {
		t.Errorf("it says %+v, the mail before said %+v", facts, moved)
	}
	f.ended(sendlog.Accepted, "250 ok")

	if got := f.keys(fmt.Sprintf(`select notifier.resend('{"booking": "%s", "role": "host"}', 'anna')`, b.ID)); !slices.Equal(got, []string{confirm(true, 3)}) {
		t.Errorf("planned %v, want %s", got, confirm(true, 3))
	}
	f.ended(sendlog.Accepted, "250 ok")
	b = f.Cancel(b)
	f.planned(b)
	f.ended(sendlog.Accepted, "250 ok")
	cancel := id.Mail{Kind: "cancel", Booking: b.ID, Version: 4, Copy: 2}.String()
	if got := f.keys(fmt.Sprintf(`select notifier.resend('{"booking": "%s", "role": "customer"}', 'anna')`, b.ID)); !slices.Equal(got, []string{cancel}) {
		t.Errorf("planned %v, want %s", got, cancel)
	}
	f.ended(sendlog.Accepted, "250 ok")
	b = f.Erase(b)
	if got := f.keys(byBooking); len(got) != 0 {
		t.Errorf("planned %v for somebody erased", got)
	}
}

// An operator's replay goes through at once, though the stream would drop the event's id: it
// takes no way through JetStream.
func TestB51ReplayIsNotADuplicate(t *testing.T) {
	t.Parallel()
	f := open(t)
	b, key := f.booked()
	f.customerOnly()
	f.ended(sendlog.Rejected, "554 5.7.1 spam")
	if again, err := f.log.Plan(t.Context(), plan.Owed(b.Event)); err != nil || slices.Contains(again, key) {
		t.Fatalf("planned twice: %v, %v", again, err)
	}
	f.customerOnly()
	f.exec(`select notifier.retry(jsonb_build_object('keys', jsonb_build_array($1::text)), 'anna')`, key)
	f.ended(sendlog.Accepted, "250 ok")
	f.want(key, "sent")
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	f := open(t)
	_, key := f.booked()
	f.customerOnly()
	f.exec(`select notifier.discard('{"kind": "confirm"}', 'anna')`)
	f.want(key, "skipped: discarded by anna")
	if hands, _, err := f.log.Hand(t.Context(), 1, 1); err != nil || len(hands) != 0 {
		t.Errorf("%d in hand: %v", len(hands), err)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	f := open(t)
	_, key := f.booked()
	for _, want := range []bool{true, false} {
		if got := one[bool](f, `select notifier.pause('mail', 'anna')`); got != want {
			t.Errorf("pause = %t, want %t", got, want)
		}
	}
	if hands, _, err := f.log.Hand(t.Context(), 2, 2); err != nil || len(hands) != 0 {
		t.Fatalf("%d in hand while paused: %v", len(hands), err)
	}
	f.want(key, "planned")
	if got := one[bool](f, `select notifier.resume('mail', 'anna')`); !got {
		t.Error("resume changed nothing")
	}
	f.ended(sendlog.Accepted, "250 ok")
	f.want(key, "sent")
}

// Each change is recorded by its own transaction: who, what, with what, how many.
func TestRecorded(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.booked()
	for _, sql := range []string{
		`select notifier.discard('{"kind": "confirm", "limit": 1}', 'anna')`,
		`select notifier.release('{"states": ["held"]}', 'ben')`,
		`select notifier.pause('mail', 'anna')`,
		`select notifier.pause('mail', 'ben')`,
		`select notifier.resume('mail', 'ben')`,
	} {
		f.exec(sql)
	}
	tx, err := f.db.Pool("slotwise_notifier").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select notifier.discard('{"kind": "confirm"}', 'carla')`); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := f.keys(`select concat_ws(' ', operator, operation, arguments, affected) from notifier.operations order by id`)
	want := []string{
		`anna discard {"kind": "confirm", "limit": 1} 1`,
		`ben release {"states": ["held"]} 0`,
		`anna pause {"switch": "mail"} 1`,
		`ben pause {"switch": "mail"} 0`,
		`ben resume {"switch": "mail"} 1`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	f := open(t)
	first, held := f.booked()
	f.customerOnly()
	f.ended(sendlog.Unsendable, "no zone Europe/Atlantis_9")
	second, refused := f.booked()
	f.exec(`update notifier.send_log set state = 'refused', reason = '550 nobody' where key = $1`, refused)
	host := id.Mail{Kind: "confirm", Booking: second.ID, Version: 1, Host: true}.String()
	f.exec(`update notifier.send_log set created_at = now() - interval '2 hours' where key = $1`, held)
	f.exec(`update notifier.send_log set created_at = now() - interval '1 hour' where key = $1`, refused)
	hour := func(ago float64) string {
		return time.Now().Add(-time.Duration(ago * float64(time.Hour))).Format(time.RFC3339Nano)
	}
	tests := map[string]struct {
		filter string
		want   []string
	}{
		"nothing: what waits for a person": {`{}`, []string{held, refused}},
		"null matters not":                 {`{"states": null, "reason": null}`, []string{held, refused}},
		"states":                           {`{"states": ["held"]}`, []string{held}},
		"other states":                     {`{"states": ["planned", "refused"]}`, []string{refused, host}},
		"no state":                         {`{"states": []}`, nil},
		"keys in any state":                {fmt.Sprintf(`{"keys": [%q, "none", %q]}`, host, held), []string{held, host}},
		"booking in any state":             {fmt.Sprintf(`{"booking": %q}`, second.ID), []string{refused, host}},
		"another booking":                  {fmt.Sprintf(`{"booking": %q}`, first.ID), []string{held}},
		"reason, in any case":              {`{"reason": "ATLANTIS"}`, []string{held}},
		"reason, pattern":                  {`{"reason": "zone%atlantis__"}`, []string{held}},
		"reason of nobody":                 {`{"reason": "mars"}`, nil},
		"empty reason":                     {`{"reason": ""}`, []string{held, refused}},
		"kind":                             {`{"kind": "cancel"}`, nil},
		"channel":                          {`{"channel": "email"}`, []string{held, refused}},
		"role":                             {`{"role": "host"}`, nil},
		"role and state":                   {`{"role": "host", "states": ["planned"]}`, []string{host}},
		"since":                            {fmt.Sprintf(`{"since": %q}`, hour(1.5)), []string{refused}},
		"until":                            {fmt.Sprintf(`{"until": %q}`, hour(1.5)), []string{held}},
		"between":                          {fmt.Sprintf(`{"since": %q, "until": %q}`, hour(2.5), hour(0.5)), []string{held, refused}},
		"limit: the oldest":                {`{"limit": 1}`, []string{held}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := f.keys(`select key from notifier.list($1)`, tt.filter); !slices.Equal(got, tt.want) {
				t.Errorf("list(%s) = %v, want %v", tt.filter, got, tt.want)
			}
		})
	}
}

// A filter that is not understood changes nothing: overlooked, it would match too much.
func TestRefusedFilters(t *testing.T) {
	t.Parallel()
	f := open(t)
	_, key := f.booked()
	for name, filter := range map[string]string{
		"no object": `["held"]`, "a word": `"held"`, "null": `null`, "unknown field": `{"state": "held"}`, "unknown state": `{"states": ["hold"]}`,
		"state null": `{"states": [null]}`, "states no list": `{"states": "held"}`, "bad booking": `{"booking": "1"}`, "bad time": `{"since": "tomorrow-ish"}`,
		"limit zero": `{"limit": 0}`, "limit a word": `{"limit": "all"}`, "limit too large": `{"limit": 1e30}`,
	} {
		for _, call := range []string{`list($1)`, `discard($1, 'anna')`} {
			if _, err := f.db.Pool("slotwise_notifier").Exec(t.Context(), `select notifier.`+call, filter); err == nil {
				t.Errorf("%s: %s takes %s", name, call, filter)
			} else if !strings.Contains(err.Error(), "SQLSTATE 22") {
				t.Errorf("%s: %s: %v is not of class 22", name, call, err)
			}
		}
	}
	for name, filter := range map[string]string{"empty": `{}`, "nulls": `{"reason": null, "keys": null}`, "limit alone": `{"limit": 5}`, "empty reason": `{"reason": ""}`} {
		for _, operation := range []string{"release", "retry", "discard", "resend"} {
			_, err := f.db.Pool("slotwise_notifier").Exec(t.Context(), `select notifier.`+operation+`($1, 'anna')`, filter)
			if err == nil || !strings.Contains(err.Error(), "the filter is empty") {
				t.Errorf("%s: %s(%s) = %v", name, operation, filter, err)
			}
		}
	}
	for name, sql := range map[string]string{
		"unknown switch": `select notifier.pause('mails', 'anna')`, "no operator": `select notifier.discard('{"kind": "confirm"}', null)`,
		"empty operator": `select notifier.discard('{"kind": "confirm"}', '')`, "unknown cursor": `select notifier.list('{}', 'none')`,
	} {
		if _, err := f.db.Pool("slotwise_notifier").Exec(t.Context(), sql); err == nil {
			t.Errorf("%s: %s works", name, sql)
		}
	}
	f.want(key, "planned")
	if got := f.keys(`select operation from notifier.operations`); len(got) != 0 {
		t.Errorf("recorded %v", got)
	}
}

// What waits for a person stands in PostgreSQL: looking does not use it up.
func TestB49ListTwice(t *testing.T) {
	t.Parallel()
	f := open(t)
	for range 25 {
		f.booked()
	}
	f.exec(`update notifier.send_log set state = 'held', reason = 'why', created_at = date_trunc('minute', now())`) // all at one time
	pages := func() (all []string) {
		for after := ""; ; after = all[len(all)-1] {
			page := f.keys(`select key from notifier.list('{}', nullif($1, ''), 7)`, after)
			all = append(all, page...)
			if len(page) < 7 {
				return all
			}
		}
	}
	first, second := pages(), pages()
	if len(first) != 50 || !slices.Equal(first, second) {
		t.Fatalf("%d and %d, want 50 twice the same", len(first), len(second))
	}
	slices.Sort(first)
	if len(slices.Compact(first)) != 50 {
		t.Error("a page repeats what another had")
	}
}

// Two operators and a sender at once: each row goes one way, nothing deadlocks.
func TestChangesAtOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	for range 50 {
		f.booked()
	}
	f.hostless()
	f.exec(`update notifier.send_log set state = 'held', reason = 'why'`)
	ended := make(chan error, 8)
	for i := range 8 {
		operation := []string{"release", "discard", "retry", "release"}[i%4]
		go func() {
			_, err := f.db.Pool("slotwise_notifier").Exec(t.Context(), `select notifier.`+operation+`('{"states": ["held"]}', 'anna')`)
			ended <- err
		}()
	}
	for range 8 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	changed := one[int](f, `select sum(affected)::int from notifier.operations`)
	moved := one[int](f, `select count(*)::int from notifier.send_log where state in ('planned', 'skipped')`)
	if changed != 100 || moved != 100 {
		t.Errorf("%d changes of %d rows, want 100 of 100", changed, moved)
	}
}

// The list of what is overdue and the gauge that alerts count the same.
func TestOverdueIsWhatTheGaugeCounts(t *testing.T) {
	t.Parallel()
	f := open(t)
	for i := range 12 {
		b, key := f.booked()
		f.exec(`update notifier.send_log set due_at = now() - make_interval(mins => $2) where booking = $1`, b.ID, i)
		switch i % 4 {
		case 1: // in hand
			f.exec(`update notifier.send_log set state = 'handed', token = gen_random_uuid(), handed_at = now(), lease_until = now() + interval '1 minute' where key = $1`, key)
		case 2: // its quiet time holds nobody up: the host's is another slot
			f.exec(`update notifier.send_log set state = 'unknown', reason = 'the lease ended', unknowns = 1, quiet_until = now() + interval '9 minutes' where key = $1`, key)
		case 3: // behind another's quiet time
			f.exec(`update notifier.send_log set role = 'customer' where booking = $1`, b.ID)
			f.exec(`update notifier.send_log set state = 'held', reason = 'why', quiet_until = now() + interval '9 minutes' where key = $1`, key)
		}
	}
	for _, paused := range []bool{false, true} {
		f.exec(`update notifier.switches set paused = $1 where name = 'mail'`, paused)
		backlog, err := f.log.Backlog(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := one[int64](f, `select count(*) from notifier.overdue`); got != backlog.Overdue || got == 0 {
			t.Errorf("paused %t: %d overdue, the gauge counts %d", paused, got, backlog.Overdue)
		}
	}
}

// The owner may call everything too, and sees no person by it; others nothing.
func TestRights(t *testing.T) {
	t.Parallel()
	f := open(t)
	b, _ := f.booked()
	f.ended(sendlog.Accepted, "250 ok")
	owner := f.db.Pool("slotwise_notifier_owner")
	for _, sql := range []string{
		`select notifier.list()`, `select notifier.pause('mail', 'anna')`, `select notifier.resume('mail', 'anna')`, `select count(*) from notifier.overdue`,
		`select notifier.release('{"kind": "confirm"}', 'anna')`, `select notifier.retry('{"kind": "confirm"}', 'anna')`,
		fmt.Sprintf(`select notifier.resend('{"booking": "%s"}', 'anna')`, b.ID), `select notifier.discard('{"kind": "confirm"}', 'anna')`,
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Errorf("as the owner: %s: %v", sql, err)
		}
	}
	if _, err := owner.Exec(t.Context(), `select address from booking.for_notifier`); err == nil {
		t.Error("the owner reads addresses")
	}
	for _, role := range []string{"slotwise_booking", "slotwise_relay", "slotwise_scheduler"} {
		for _, sql := range []string{`select notifier.list()`, `select notifier.pause('mail', 'anna')`, `select from notifier.messages`} {
			if _, err := f.db.Pool(role).Exec(t.Context(), sql); err == nil {
				t.Errorf("%s may %s", role, sql)
			}
		}
	}
}

// keys runs a query of one column of text.
func (f fixture) keys(sql string, args ...any) []string {
	f.t.Helper()
	rows, _ := f.db.Pool("slotwise_notifier").Query(f.t.Context(), sql, args...)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return all
}
