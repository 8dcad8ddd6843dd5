package operate_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"
	"github.com/slotwise/slotwise/pkg/ops"
	"github.com/slotwise/slotwise/pkg/ops/message"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

func TestMessages(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, key := s.booked()
	s.customerOnly()
	s.ended(sendlog.Rejected, "550 5.1.1 no such user")
	for _, request := range []any{"", "{}", message.Query{}, message.Query{Filter: message.Filter{States: []string{"refused"}}}} {
		page := must[message.Page](s, "ops.get.messages", request)
		if keys(page.Messages) != key || page.Next != "" {
			t.Fatalf("%v: %+v", request, page)
		}
	}
	m := must[message.Page](s, "ops.get.messages", "").Messages[0]
	if m.Answer != "550 5.1.1 no such user" || m.AnsweredAt == nil || m.Tries != 1 || !strings.HasSuffix(m.Verdict, ": 550 5.1.1 no such user") {
		t.Errorf("message %+v", m)
	}
}

// Twice the same list, and the same after the streams are lost.
func TestB48B49ListTwiceAndWithoutStreams(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for range 10 {
		s.booked()
	}
	s.exec(`update notifier.send_log set state = 'held', reason = 'why'`)
	list := func() string {
		var all []message.Message
		for after := ""; ; {
			page := must[message.Page](s, "ops.get.messages", message.Query{Filter: message.Filter{Limit: 7}, After: after})
			all = append(all, page.Messages...)
			if after = page.Next; after == "" {
				text, err := json.Marshal(all)
				if err != nil || len(all) != 20 {
					t.Fatalf("%d messages: %v", len(all), err)
				}
				return string(text)
			}
		}
	}
	first := list()
	if second := list(); second != first {
		t.Errorf("the second list is another:\n%s\n%s", first, second)
	}
	s.bus.Wipe()
	deadline := time.Now().Add(10 * time.Second)
	for ; time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // polls
		if _, err := s.nc.Request("ops.get.switches", nil, time.Second); err == nil {
			break
		}
	}
	if third := list(); third != first {
		t.Errorf("the list without streams is another:\n%s\n%s", first, third)
	}
}

// An answer never grows beyond what NATS carries.
func TestPagesFit(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for range 60 {
		s.booked()
	}
	s.hostless()
	s.exec(`update notifier.send_log set state = 'held', reason = repeat('€', 1024)`)
	var all []string
	for after := ""; ; {
		page := must[message.Page](s, "ops.get.messages", message.Query{Filter: message.Filter{Limit: 1000}, After: after})
		for _, m := range page.Messages {
			all = append(all, m.Key)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != 120 {
		t.Errorf("%d messages listed, want 120", len(all))
	}
	s.exec(`update notifier.send_log set state = 'planned', reason = null, due_at = now() - interval '1 hour'`)
	s.exec(`update notifier.send_log set state = 'unknown', reason = repeat('€', 1024) where urgency = 0`)
	overdue := must[message.Overdue](s, "ops.get.overdue", "")
	if overdue.Overdue != 120 || len(overdue.Messages) == 0 || len(overdue.Messages) > 100 {
		t.Errorf("%d overdue, %d of them listed", overdue.Overdue, len(overdue.Messages))
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, key := s.booked()
	s.exec(`update notifier.send_log set state = 'held', reason = 'why' where key = $1`, key)
	byKey := message.Filter{Keys: []string{key}}

	dry := must[message.Change](s, "ops.do.dev.release", message.Order{Filter: byKey, DryRun: true})
	if dry.Changed != 1 || !slices.Equal(dry.Keys, []string{key}) || !dry.DryRun {
		t.Errorf("dry run: %+v", dry)
	}
	s.want(key, "held: why")
	if got := s.keys(`select operation from notifier.operations`); len(got) != 0 {
		t.Errorf("a dry run records %v", got)
	}

	if done := must[message.Change](s, "ops.do.dev.release", message.Order{Filter: byKey}); done.Changed != 1 || done.DryRun {
		t.Errorf("release: %+v", done)
	}
	s.want(key, "planned")
	if again := must[message.Change](s, "ops.do.dev.release", message.Order{Filter: byKey}); again.Changed != 0 || again.Keys == nil {
		t.Errorf("released again: %+v", again)
	}
	if done := must[message.Change](s, "ops.do.dev.discard", message.Order{Filter: message.Filter{Kind: "confirm"}}); done.Changed != 2 {
		t.Errorf("discard: %+v", done)
	}
	s.want(key, "skipped: discarded by dev")
	if done := must[message.Change](s, "ops.do.dev.resend", message.Order{Filter: byKey}); !slices.Equal(done.Keys, []string{key + "-c2"}) {
		t.Errorf("resend: %+v", done)
	}
	s.exec(`update notifier.send_log set state = 'refused', reason = 'why' where key = $1`, key)
	if done := must[message.Change](s, "ops.do.dev.retry", message.Order{Filter: byKey}); done.Changed != 1 {
		t.Errorf("retry: %+v", done)
	}
	got := s.keys(`select concat_ws(' ', operator, operation, affected) from notifier.operations order by id`)
	if want := []string{"dev release 1", "dev release 0", "dev discard 2", "dev resend 1", "dev retry 1"}; !slices.Equal(got, want) {
		t.Errorf("recorded %v, want %v", got, want)
	}
}

// An address that refused for good is let in again by itself, or by the key of a message to it.
func TestLift(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b, key := s.booked()
	for _, request := range []string{b.Address, key, key + "-host\n"} {
		s.exec(`insert into notifier.suppressions (address, reason, key) values (lower($1), '550 5.1.1 gone', $2), ('host@rooms.example', '550 5.1.1 gone', $2)`, b.Address, key)
		for _, want := range []bool{true, false} {
			if got := must[message.Lift](s, "ops.do.dev.lift", request); got.Lifted != want {
				t.Errorf("lift %s = %t, want %t", request, got.Lifted, want)
			}
		}
		s.exec(`delete from notifier.suppressions`)
	}
	got := s.keys(`select concat_ws(' ', operator, operation, arguments, affected) from notifier.operations order by id limit 2`)
	if want := []string{`dev lift {"keys": ["` + key + `"]} 1`, `dev lift {"keys": []} 0`}; !slices.Equal(got, want) {
		t.Errorf("recorded %v, want %v", got, want)
	}
}

func TestSwitches(t *testing.T) {
	t.Parallel()
	s := serve(t)
	steps := []struct {
		subject string
		request any
		changed bool
		mail    bool // paused afterwards
	}{
		{"ops.do.dev.pause", "mail", true, true},
		{"ops.do.dev.pause", message.SwitchOrder{Switch: "mail"}, false, true},
		{"ops.do.dev.pause", "webhooks\n", true, true},
		{"ops.do.dev.resume", "", true, false},
		{"ops.do.dev.resume", "mail", false, false},
	}
	for _, step := range steps {
		if done := must[message.SwitchChange](s, step.subject, step.request); done.Changed != step.changed {
			t.Errorf("%s %v: %+v", step.subject, step.request, done)
		}
		switches := must[[]message.Switch](s, "ops.get.switches", "")
		if len(switches) != 2 || switches[0].Name != "mail" || switches[0].Paused != step.mail {
			t.Errorf("after %s %v: %+v", step.subject, step.request, switches)
		}
	}
}

func TestWrongRequests(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, key := s.booked()
	tests := []struct{ subject, request, want string }{
		{"ops.get.messages", `{"state": "held"}`, "unknown field"},
		{"ops.get.messages", `{"states": "held"}`, "not the JSON"},
		{"ops.get.messages", `{"states": ["hold"]}`, "unknown states: hold"},
		{"ops.get.messages", `{"limit": -1}`, "limit"},
		{"ops.get.messages", `{"after": "none"}`, "there is no message none"},
		{"ops.get.messages", `{"booking": "1"}`, "uuid"},
		{"ops.get.messages", `{"reason": "\u0000"}`, "Unicode"},
		{"ops.get.messages", `{"since": "yesterday"}`, "not the JSON"},
		{"ops.get.messages", `held`, "not the JSON"},
		{"ops.get.messages", `{} {}`, "not the JSON"},
		{"ops.get.trace", ``, "no booking's id"},
		{"ops.get.trace", `{}`, "no booking's id"},
		{"ops.get.trace", `' or true`, "no booking's id"},
		{"ops.do.dev.release", ``, "the filter is empty"},
		{"ops.do.dev.discard", `{}`, "the filter is empty"},
		{"ops.do.dev.discard", `{"limit": 3}`, "the filter is empty"},
		{"ops.do.dev.discard", `{"keys": []}`, "the filter is empty"},
		{"ops.do.dev.discard", `{"kinds": ["confirm"]}`, "unknown field"},
		{"ops.do.dev.resend", `{"booking": "x"}`, "uuid"},
		{"ops.do.dev.lift", "a@\xff", "no plain text"},
		{"ops.get.suppressions", `{"address": "\u0000"}`, "an address is none"},
		{"ops.get.suppressions", `{"limit": -1}`, "the limit is less than 1"},
		{"ops.get.suppressions", `{"reason": "x"}`, "unknown field"},
		{"ops.do.dev.lift", ` `, "neither an address nor"},
		{"ops.do.dev.lift", `none`, "there is no message of that key"},
		{"ops.do.dev.lift", "a@b\x00", "no plain text"},
		{"ops.do.dev.pause", `mails`, "there is no switch mails"},
		{"ops.do.dev.pause", `{"name": "mail"}`, "unknown field"},
		{"ops.do.dev.resume", "\x00", "no plain text"},
	}
	for _, tt := range tests {
		_, fault := ask[any](s, tt.subject, tt.request)
		if !strings.HasPrefix(fault, "400 ") || !strings.Contains(fault, tt.want) {
			t.Errorf("%s %q answers %q, want 400 and %q", tt.subject, tt.request, fault, tt.want)
		}
	}
	s.want(key, "planned")
}

// A cause that is not the asker's is not told to the asker, but is no silence either.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.db.Pool("slotwise_notifier").Close()
	_, fault := ask[any](s, "ops.get.messages", "")
	if !strings.HasPrefix(fault, "500 ") {
		t.Errorf("answer %q, want 500", fault)
	}
}

// The operator is a token of the subject, and nobody may use another's.
func TestOperatorIsGivenByPermission(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for user, subject := range map[string]string{"dev": "ops.do.anna.pause", "relay": "ops.do.dev.pause", "booking": "ops.get.switches"} {
		if m, err := s.bus.Connect(user).Request(subject, []byte("mail"), 300*time.Millisecond); err == nil {
			t.Errorf("%s may ask %s and gets %s", user, subject, m.Data)
		}
	}
	if n := one[int](s.fixture, `select count(*)::int from notifier.operations`); n != 0 {
		t.Errorf("%d operations recorded", n)
	}
}

// What `nats micro ls|info|stats` ask for.
func TestMicro(t *testing.T) {
	t.Parallel()
	s := serve(t)
	must[[]message.Switch](s, "ops.get.switches", "")
	ask[any](s, "ops.get.trace", "no id")
	s.exec(`update notifier.switches set paused = true where name = 'mail'`)
	info := must[micro.Info](s, "$SRV.INFO.notifier", "")
	var subjects []string
	for _, e := range info.Endpoints {
		subjects = append(subjects, e.Subject)
		if e.QueueGroup != micro.DefaultQueueGroup || e.Metadata["about"] == "" {
			t.Errorf("endpoint %+v", e)
		}
	}
	want := []string{
		"ops.get.trace", "ops.get.messages", "ops.get.overdue", "ops.get.switches", "ops.get.suppressions",
		"ops.do.*.release", "ops.do.*.retry", "ops.do.*.discard", "ops.do.*.resend", "ops.do.*.lift", "ops.do.*.pause", "ops.do.*.resume",
		"ops.get.webhooks", "ops.get.deliveries", "ops.do.*.webhook-create", "ops.do.*.webhook-disable", "ops.do.*.webhook-enable",
		"ops.do.*.webhook-delete", "ops.do.*.webhook-rotate", "ops.do.*.webhook-example", "ops.do.*.webhook-resend", "ops.do.*.webhook-recover",
	}
	if !slices.Equal(subjects, want) {
		t.Errorf("endpoints %v, want %v", subjects, want)
	}
	stats := must[micro.Stats](s, "$SRV.STATS.notifier", "")
	for _, e := range stats.Endpoints {
		asked := e.Name == "switches" || e.Name == "trace"
		if (e.NumRequests == 1) != asked || (e.NumErrors == 1) != (e.Name == "trace") {
			t.Errorf("stats %+v", e)
		}
		if want := `{"overdue":0,"held":0,"refused":0,"paused":["mail"]}`; e.Name == "overdue" && string(e.Data) != want {
			t.Errorf("data %s, want %s", e.Data, want)
		}
	}
	s.db.Pool("slotwise_notifier").Close()
	must[micro.Stats](s, "$SRV.STATS.notifier", "") // the counts are there without the database
}

func FuzzRequests(f *testing.F) {
	for _, request := range []string{
		``, `{}`, `mail`, `{"switch": "mail"}`, `{"states": ["held"], "reason": "x", "limit": 3, "after": "k", "dry_run": true}`,
		`{"keys": ["a", "b"], "since": "2026-12-01T09:00:00Z", "until": "2026-12-01T10:00:00+01:00"}`, `{"booking": "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"}`,
		`{"limit": 2147483648}`, `{"reason": "\u0000"}`, `{"reason": "\ud800"}`, `{"since": "0000-01-01T00:00:00Z"}`, `{"until": "9999-12-31T23:59:59.999999999Z"}`,
	} {
		f.Add(request)
	}
	s := open(f)
	s.booked()
	endpoints := s.desk(nil).Endpoints()
	f.Fuzz(func(t *testing.T, request string) {
		for _, e := range endpoints {
			_, err := e.Answer(t.Context(), ops.Request{Operator: "dev", Data: []byte(request)})
			if _, bad := errors.AsType[*ops.BadRequestError](err); err != nil && !bad {
				t.Errorf("%s %q: %v", e.Name, request, err)
			}
		}
	})
}
