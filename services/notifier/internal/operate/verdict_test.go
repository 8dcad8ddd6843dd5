package operate

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/ops/message"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/services/notifier/internal/webhook"
)

var now = time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)

func in(d time.Duration) *time.Time {
	t := now.Add(d)
	return &t
}

// mailOf is the customer's mail of that version, planned a minute ago.
func mailOf(version int64, state string, change func(*message.Message)) message.Message {
	kind := map[int64]string{1: "confirm", 2: "move", 3: "cancel"}[version]
	m := message.Message{
		Key: "email-" + kind + "-b-v" + string(rune('0'+version)), Channel: "email", Booking: "b", Kind: kind, Version: version,
		Role: "customer", State: state, CreatedAt: *in(-time.Minute), DueAt: *in(-time.Minute),
	}
	if change != nil {
		change(&m)
	}
	return m
}

func TestVerdict(t *testing.T) {
	quiet := mailOf(1, "held", func(m *message.Message) { m.Reason, m.QuietUntil = "why", in(9*time.Minute) })
	inHand := mailOf(1, "handed", func(m *message.Message) { m.HandedAt = in(-time.Second) })
	sent := mailOf(3, "sent", func(m *message.Message) { m.AcceptedAt, m.Tries = in(-time.Second), 1 })
	paused := []message.Switch{{Name: "mail", Paused: true, ChangedAt: *in(-time.Hour), ChangedBy: "anna"}}
	resumed := func(when time.Duration) []message.Switch {
		return []message.Switch{{Name: "mail", ChangedAt: *in(when), ChangedBy: "anna"}}
	}
	supersededBy := func(n string, unknowns int) func(*message.Message) {
		return func(m *message.Message) { m.Reason, m.Unknowns = "superseded by v"+n, unknowns }
	}
	tests := []struct {
		name    string
		message message.Message
		view    view
		want    string
	}{
		{name: "sent", message: mailOf(1, "sent", func(m *message.Message) { m.AcceptedAt, m.Tries = in(0), 1 }), want: "sent 2026-12-01 03:00:00Z (1 try)"},
		{name: "sent, maybe twice", message: mailOf(1, "sent", func(m *message.Message) { m.AcceptedAt, m.Tries, m.Unknowns = in(0), 2, 1 }), want: "sent 2026-12-01 03:00:00Z (2 tries, maybe 1 copy more)"},
		{name: "bounced", message: mailOf(1, "sent", func(m *message.Message) { m.AcceptedAt, m.Tries, m.BouncedAt = in(0), 1, in(time.Minute) }), want: "sent 2026-12-01 03:00:00Z (1 try), but came back 2026-12-01 03:01:00Z"},
		{name: "delayed", message: mailOf(1, "sent", func(m *message.Message) { m.AcceptedAt, m.Tries, m.Reason = in(0), 1, "delayed: 4.4.1\ntimed out" }), want: "sent 2026-12-01 03:00:00Z (1 try), delayed behind the mail server: 4.4.1 timed out"},
		{name: "suppressed", message: mailOf(1, "refused", func(m *message.Message) { m.Reason = "suppressed: 550 5.1.1 no since 2026-11-01 00:00:00Z" }), want: "refused, not tried: suppressed: 550 5.1.1 no since 2026-11-01 00:00:00Z"},
		{name: "bounced, with words", message: mailOf(1, "sent", func(m *message.Message) {
			m.AcceptedAt, m.Tries, m.BouncedAt, m.Reason = in(0), 1, in(0), "bounced: 5.1.1 unknown"
		}), want: "sent 2026-12-01 03:00:00Z (1 try), but came back 2026-12-01 03:00:00Z: 5.1.1 unknown"},
		{name: "in hand", message: mailOf(1, "handed", func(m *message.Message) { m.HandedAt, m.Tries, m.LeaseUntil = in(-time.Second), 2, in(time.Minute) }), want: "in hand since 2026-12-01 02:59:59Z (2nd try)"},
		{name: "in hand of nobody", message: mailOf(1, "handed", func(m *message.Message) { m.HandedAt, m.LeaseUntil = in(-time.Hour), in(-time.Minute) }), want: "in hand since 2026-12-01 02:00:00Z, but its lease is over: the sweep marks it unknown within seconds, if a notifier runs"},
		{name: "refused", message: mailOf(1, "refused", func(m *message.Message) { m.Reason, m.AnsweredAt = "550 5.1.1\nno such user", in(0) }), want: "refused 2026-12-01 03:00:00Z: 550 5.1.1 no such user"},
		{name: "held", message: mailOf(1, "held", func(m *message.Message) { m.Reason = "older than the catch-up limit" }), want: "held: older than the catch-up limit"},
		{name: "held by marks", message: mailOf(1, "held", func(m *message.Message) { m.Reason, m.Unknowns = "too often no answer after the final dot", 3 }), want: "held: too often no answer after the final dot (3 unknown marks)"},
		{name: "discarded", message: mailOf(1, "skipped", func(m *message.Message) { m.Reason = "discarded by anna" }), want: "skipped: discarded by anna"},
		{name: "skipped after unknown", message: mailOf(1, "skipped", func(m *message.Message) { m.Reason, m.Unknowns = "erased", 1 }), want: "skipped: erased, maybe delivered (1 unknown mark)"},
		{name: "skipped, accepted late", message: mailOf(1, "skipped", func(m *message.Message) { m.Reason, m.Unknowns, m.AcceptedAt = "erased", 1, in(0) }), want: "skipped: erased, but delivered: accepted 2026-12-01 03:00:00Z"},
		{name: "superseded", message: mailOf(1, "skipped", supersededBy("3", 0)), view: view{others: []message.Message{sent}}, want: "skipped: superseded by v3; its successor email-cancel-b-v3: sent 2026-12-01 02:59:59Z (1 try)"},
		{
			name: "superseded twice, maybe delivered", message: mailOf(1, "skipped", supersededBy("2", 1)),
			view: view{others: []message.Message{mailOf(2, "skipped", supersededBy("3", 0)), sent}},
			want: "skipped: superseded by v2, maybe delivered (1 unknown mark); its successor email-cancel-b-v3: sent 2026-12-01 02:59:59Z (1 try)",
		},
		{name: "superseded by what nobody planned", message: mailOf(1, "skipped", supersededBy("2", 0)), view: view{others: []message.Message{sent}}, want: "skipped: superseded by v2; the mail of v2 is not planned yet"},
		{name: "superseded by itself", message: mailOf(2, "skipped", supersededBy("2", 0)), view: view{others: []message.Message{sent}}, want: "skipped: superseded by v2"},
		{name: "superseded, in a list", message: mailOf(1, "skipped", supersededBy("2", 0)), want: "skipped: superseded by v2"},
		{name: "not tried", message: mailOf(1, "planned", nil), want: "waiting for SMTP: due since 2026-12-01 02:59:00Z, not tried yet"},
		{name: "backlog", message: mailOf(1, "planned", func(m *message.Message) { m.DueAt = *in(-10 * time.Minute) }), want: "waiting for SMTP: due since 2026-12-01 02:50:00Z (backlog: SEND_RATE paces it), not tried yet"},
		{name: "tried", message: mailOf(1, "planned", func(m *message.Message) { m.Tries, m.Answer = 1, "421 closing\r\nsoon" }), want: `waiting for SMTP: due since 2026-12-01 02:59:00Z, 1 try so far, the last ended with "421 closing soon"`},
		{name: "greylisted", message: mailOf(1, "planned", func(m *message.Message) { m.Attempts, m.Reason, m.DueAt = 2, "451 4.7.1 greylisted", *in(time.Minute) }), want: `waiting: next try at 2026-12-01 03:01:00Z; 2 tries were refused for now, the last with "451 4.7.1 greylisted"`},
		{name: "due later", message: mailOf(1, "planned", func(m *message.Message) { m.DueAt = *in(time.Minute) }), want: "waiting: due at 2026-12-01 03:01:00Z"},
		{name: "greylisting of a webhook", message: mailOf(1, "planned", func(m *message.Message) {
			m.Channel, m.Attempts, m.Reason, m.DueAt = "webhook", 3, "the host's name does not exist", *in(time.Minute)
		}), want: `waiting: next try at 2026-12-01 03:01:00Z; 3 tries failed, the last with "the host's name does not exist"`},
		{name: "just due", message: mailOf(1, "planned", func(m *message.Message) { m.DueAt = *in(-4 * time.Second) }), want: "waiting: due since 2026-12-01 02:59:56Z; a sender takes it within 5s"},
		{name: "not quite just due", message: mailOf(1, "planned", func(m *message.Message) { m.DueAt = *in(-5 * time.Second) }), want: "waiting for SMTP: due since 2026-12-01 02:59:55Z, not tried yet"},
		{name: "just due again", message: mailOf(1, "planned", func(m *message.Message) { m.DueAt, m.Tries, m.Answer = now, 1, "451 later" }), want: `waiting: due since 2026-12-01 03:00:00Z; a sender takes it within 5s, 1 try so far, the last ended with "451 later"`},
		{name: "just resumed", message: mailOf(1, "planned", nil), view: view{switches: resumed(-4 * time.Second)}, want: "waiting: due since 2026-12-01 02:59:00Z, mail resumed at 2026-12-01 02:59:56Z; a sender takes it within 5s"},
		{name: "resumed before", message: mailOf(1, "planned", nil), view: view{switches: resumed(-5 * time.Second)}, want: "waiting for SMTP: due since 2026-12-01 02:59:00Z, not tried yet"},
		{name: "just resumed, a backlog", message: mailOf(1, "planned", func(m *message.Message) { m.DueAt = *in(-10 * time.Minute) }), view: view{switches: resumed(0)}, want: "waiting for SMTP: due since 2026-12-01 02:50:00Z (backlog: SEND_RATE paces it), not tried yet"},
		{name: "webhooks paused", message: mailOf(1, "planned", func(m *message.Message) { m.Channel = "webhook" }), view: view{switches: []message.Switch{{Name: "webhooks", Paused: true, ChangedAt: now, ChangedBy: "anna"}}}, want: "waiting: webhooks are paused by anna since 2026-12-01 03:00:00Z"},
		{name: "paused", message: mailOf(1, "planned", nil), view: view{switches: paused}, want: "waiting: mail is paused by anna since 2026-12-01 02:00:00Z"},
		{name: "a webhook while mail is paused", message: mailOf(1, "planned", func(m *message.Message) { m.Channel = "webhook" }), view: view{switches: paused}, want: "waiting for its endpoint: due since 2026-12-01 02:59:00Z, not tried yet"},
		{name: "quiet", message: mailOf(2, "planned", func(m *message.Message) { m.DueAt = *in(9 * time.Minute) }), view: view{others: []message.Message{quiet}}, want: "waiting: quiet until 2026-12-01 03:09:00Z, because email-confirm-b-v1 may still arrive"},
		{name: "its own quiet time", message: quiet, view: view{others: []message.Message{quiet}}, want: "held: why"},
		{name: "another's quiet time", message: mailOf(2, "planned", func(m *message.Message) { m.Role = "host" }), view: view{others: []message.Message{quiet}}, want: "waiting for SMTP: due since 2026-12-01 02:59:00Z, not tried yet"},
		{name: "slot taken", message: mailOf(2, "planned", nil), view: view{others: []message.Message{quiet, inHand}}, want: "waiting until email-confirm-b-v1 is out of hand: one dialogue for each booking and role"},
		{name: "unknown", message: mailOf(1, "unknown", func(m *message.Message) { m.HandedAt, m.Unknowns, m.DueAt = in(-time.Minute), 1, *in(time.Minute) }), want: "unknown: no answer to the hand of 2026-12-01 02:59:00Z, 1 unknown mark; waiting: due at 2026-12-01 03:01:00Z"},
		{name: "unreadable, released", message: message.Message{Key: "event-x", Channel: "event", Kind: "event", State: "planned", DueAt: now}, want: "waiting for the audit, which tries every minute to read this event"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.view.now = now
			if got := tt.view.verdict(tt.message); got != tt.want {
				t.Errorf("verdict %q\nwant    %q", got, tt.want)
			}
		})
	}
}

// The senders look as often as verdicts say.
func TestPoll(t *testing.T) {
	if a, b := sendlog.DefaultTimes().Poll, webhook.DefaultTimes().Poll; a != poll || b != poll {
		t.Errorf("mails are looked for every %s, webhooks every %s, verdicts say %s", a, b, poll)
	}
}

func TestNth(t *testing.T) {
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 102: "102nd", 113: "113th"} {
		if got := nth(n); got != want {
			t.Errorf("nth(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestOwed(t *testing.T) {
	const booking = "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"
	facts := func(change func(*message.Facts)) *message.Facts {
		f := message.Facts{Version: 2, StartVersion: 1, ToldCustomer: 2, Status: "confirmed", Start: *in(48 * time.Hour), End: *in(49 * time.Hour)}
		if change != nil {
			change(&f)
		}
		return &f
	}
	reminded := func(at time.Duration) *message.Facts {
		return facts(func(f *message.Facts) { f.ToldCustomer, f.RemindAt = 0, in(at) })
	}
	outbox := func(change func(*message.Outbox)) []message.Outbox {
		o := message.Outbox{ID: 7, MessageID: "booking-" + booking + "-v2", CreatedAt: *in(-time.Minute)}
		change(&o)
		return []message.Outbox{o}
	}
	const none = "none owed: the start was too near when it was set, or the resource has no reminders"
	tests := []struct {
		name  string
		trace message.Trace
		want  []string
	}{
		{"no booking", message.Trace{}, nil},
		{"erased", message.Trace{Facts: facts(func(f *message.Facts) { f.Erased = true })}, nil},
		{"not published", message.Trace{Facts: facts(nil), Outbox: outbox(func(*message.Outbox) {})}, []string{
			"mail customer not planned yet: the relay has not published v2, which waits since 2026-12-01 02:59:00Z; the audit plans it by 2026-12-01 03:02:00Z",
			"reminder customer " + none,
		}},
		{"not published for long", message.Trace{Facts: facts(nil), Audit: message.Audit{PassedAt: *in(-time.Hour)}, Outbox: outbox(func(o *message.Outbox) { o.CreatedAt = *in(-10 * time.Minute) })}, []string{
			"mail customer not planned yet: the relay has not published v2, which waits since 2026-12-01 02:50:00Z; the audit, which should have planned it by 2026-12-01 02:53:00Z, last passed at 2026-12-01 02:00:00Z",
			"reminder customer " + none,
		}},
		{"refused by the stream", message.Trace{Facts: facts(nil), Outbox: outbox(func(o *message.Outbox) { o.Attempts, o.LastError = 2, "too large" })}, []string{
			"mail customer not planned yet: the relay could not publish v2 yet (2 refusals, the last: too large); the audit plans it by 2026-12-01 03:02:00Z",
			"reminder customer " + none,
		}},
		{"parked", message.Trace{Facts: facts(nil), Outbox: outbox(func(o *message.Outbox) { o.Attempts, o.LastError, o.ParkedAt = 9, "too large", in(0) })}, []string{
			"mail customer not planned yet: the relay parked v2 at 2026-12-01 03:00:00Z after 9 refusals: too large; the audit plans it by 2026-12-01 03:02:00Z",
			"reminder customer " + none,
		}},
		{"published", message.Trace{Facts: facts(nil), Outbox: outbox(func(o *message.Outbox) { o.PublishedAt = in(0) })}, []string{
			"mail customer not planned yet: v2 was published at 2026-12-01 03:00:00Z, the planner has not come to it; the audit plans it by 2026-12-01 03:02:00Z",
			"reminder customer " + none,
		}},
		{"gone from the outbox", message.Trace{Facts: facts(nil)}, []string{
			"mail customer not planned, and the event of v2 is not kept in the outbox: republish it, or resend",
			"reminder customer " + none,
		}},
		{"forgotten", message.Trace{Facts: facts(func(f *message.Facts) { f.Status, f.End = "cancelled", *in(-31 * 24 * time.Hour) })}, []string{
			"mail customer no record any more: messages are kept 90 days, and until 30 days after the booking's end",
		}},
		{"host too", message.Trace{Facts: facts(func(f *message.Facts) {
			f.Status, f.ToldCustomer, f.ToldHost, f.End = "cancelled", 0, 2, *in(-31 * 24 * time.Hour)
		})}, []string{
			"mail host no record any more: messages are kept 90 days, and until 30 days after the booking's end",
		}},
		{"unreadable", message.Trace{
			Facts:    facts(func(f *message.Facts) { f.Status = "cancelled" }),
			Messages: []message.Message{{Key: "event-booking-" + booking + "-v2", Channel: "event", State: "held", Reason: "unknown type"}},
		}, []string{"mail customer not planned: the event of v2 could not be read, see event-booking-" + booking + "-v2: held: unknown type"}},
		{"planned", message.Trace{Facts: facts(func(f *message.Facts) { f.Status = "cancelled" }), Messages: []message.Message{mailOf(2, "sent", nil)}}, nil},
		{"reminder scheduled", message.Trace{
			Facts:     reminded(time.Hour),
			Reminders: message.Reminders{Found: []message.Reminder{{Subject: "reminder.at." + booking + ".1", Schedule: in(time.Hour)}}},
		}, []string{"reminder customer scheduled for 2026-12-01 04:00:00Z"}},
		{"reminder not scheduled", message.Trace{Facts: reminded(time.Hour)}, []string{
			"reminder customer due at 2026-12-01 04:00:00Z, not scheduled: the scheduler looks every hour for what is missing, and the audit plans it without",
		}},
		{"stream away", message.Trace{Facts: reminded(time.Hour), Reminders: message.Reminders{Error: "the stream REMINDERS is not there"}}, []string{
			"reminder customer due at 2026-12-01 04:00:00Z; whether it is scheduled is not known: the stream REMINDERS is not there",
		}},
		{"reminder lost", message.Trace{Facts: reminded(-time.Minute), Audit: message.Audit{PassedAt: now}}, []string{
			"reminder customer not planned yet: was due at 2026-12-01 02:59:00Z; the audit plans it within six minutes of that and last passed at 2026-12-01 03:00:00Z",
		}},
		{"begun", message.Trace{Facts: facts(func(f *message.Facts) { f.ToldCustomer, f.RemindAt, f.Start = 0, in(-time.Hour), *in(-time.Minute) })}, []string{
			"reminder customer not planned, and never will be: the booking has begun",
		}},
		{"reminder planned", message.Trace{Facts: reminded(-time.Minute), Messages: []message.Message{{Key: "reminder-" + booking + "-v1"}}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.trace.Booking, tt.trace.At = booking, now
			got := owed(tt.trace, view{now: now, others: tt.trace.Messages})
			if len(got) != len(tt.want) {
				t.Fatalf("owed %+v\nwant %q", got, tt.want)
			}
			for i, o := range got {
				if line := o.Kind + " " + o.Role + " " + o.Verdict; line != tt.want[i] {
					t.Errorf("owed %q\nwant %q", line, tt.want[i])
				}
			}
		})
	}
}
