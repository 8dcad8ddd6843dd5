package operate_test

import (
	"strings"
	"testing"

	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/pkg/ops/message"
	"github.com/slotwise/slotwise/services/notifier/internal/plan"
	"github.com/slotwise/slotwise/testkit/seed"
)

// announced plans what the last change of b owes, webhooks included, and returns its event's id.
func (f fixture) announced(b seed.Booking) string {
	f.t.Helper()
	body, err := b.Event.Encode()
	if err != nil {
		f.t.Fatal(err)
	}
	mails, told := plan.Encoded{MessageID: b.Event.ID, At: b.Event.Time, Body: body}.Owed()
	if _, err := f.log.PlanEvents(f.t.Context(), mails, told); err != nil {
		f.t.Fatal(err)
	}
	return b.Event.ID
}

// A day with a receiver that fails, with the program alone.
func TestProgramWebhooks(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.says(s.slotwise(0, "webhooks", "list"), "no endpoints")
	s.says(s.slotwise(2, "webhooks", "create"), "--url")
	s.says(s.slotwise(2, "webhooks", "create", "--url", "http://hooks.example/", "--type", "booked"), "url must begin with https://", "WEBHOOK_ALLOW_HTTP=yes", `event_types has "booked", which is not one of booking.v1.confirmed, booking.v1.rescheduled,`)
	s.says(s.slotwise(2, "webhooks", "create", "--url", "https://10.0.0.1/"), "url must not name an address that is not public", "(WEBHOOK_ALLOW of the notifier")
	s.says(s.slotwise(2, "webhooks", "create", "--url", "https://hooks.example/", "--concurrency", "0", "--rate", "0"), "concurrency must be 1 to 64", "rate must be 1 to 10000")
	s.says(s.slotwise(0, "webhooks", "list"), "no endpoints")
	made := s.slotwise(0, "webhooks", "create", "--url", "https://hooks.example/in", "--owner", "anna@example.org", "--description", "Ops", "--type", "booking.v1.confirmed,booking.v1.cancelled", "--rate", "5")
	s.says(made, "secret   whsec_", "shown this once")
	if strings.Contains(made, "nobody is told") {
		t.Error(made)
	}
	name := strings.Fields(made)[1]
	s.says(s.slotwise(0, "webhooks", "list"), name+"  enabled  https://hooks.example/in  Ops")
	shown := s.slotwise(0, "webhooks", "show", name)
	s.says(shown, "owner        anna@example.org", "booking.v1.confirmed, booking.v1.cancelled", "resources    all", "a second     5")
	if strings.Contains(shown, "whsec_") {
		t.Error("the secret is shown again")
	}
	s.says(s.slotwise(3, "webhooks", "show", "we_nobody"), "no such endpoint")
	s.exec(`insert into notifier.endpoints (id, url) select 'we_' || n, 'https://hooks.example/' from generate_series(1, 100) n`)
	s.says(s.slotwise(0, "webhooks", "show", name), name) // not on the first page
	s.says(s.slotwise(0, "webhooks", "list"), "there are more: --after we_")
	s.exec(`delete from notifier.endpoints where id <> $1`, name)

	b := s.Book(seed.Booking{Resource: resource})
	key := id.Webhook(s.announced(b), name)
	s.exec(`insert into notifier.hands (key, token, n, handed_at, ended_at, outcome, answer)
		values ($1, gen_random_uuid(), 1, now() - interval '1 s', now(), 'planned', '503 busy')`, key)
	s.exec(`update notifier.send_log set state = 'held', reason = 'too many tries: 503 busy', attempts = 10 where key = $1`, key)
	s.says(s.slotwise(0, "messages", "list", "--channel", "webhook"), key, "held: too many tries: 503 busy")
	s.says(s.slotwise(0, "messages", "list", "--endpoint", name), key)
	s.says(s.slotwise(0, "messages", "list", "--endpoint", "we_other"), "no such messages")
	s.says(s.slotwise(0, "trace", b.ID), key, "held: too many tries", "failed  503 busy", "create endpoint")
	shown = strings.Join(strings.Fields(s.slotwise(0, "messages", "show", key)), " ")
	s.says(shown, "what webhook "+name+" booking", "failed 10 last answer")
	s.says(s.slotwise(0, "webhooks", "deliveries", name, "--state", "held"), key, "booking.v1.confirmed", "held (1 try): too many tries: 503 busy")
	s.says(s.slotwise(0, "webhooks", "deliveries", key), "try 1", "failed after 1000 ms: 503 busy", `"specversion":"1.0"`)
	s.says(s.slotwise(3, "webhooks", "deliveries", "webhook-none"), "no delivery")
	s.says(s.slotwise(2, "webhooks", "deliveries", name, "--state", "lost"), "unknown states")

	// A webhook never becomes a mail.
	s.says(s.slotwise(2, "messages", "resend", key), "slotwise webhooks resend")
	s.says(s.slotwise(2, "messages", "resend", "--channel", "webhook"), "slotwise webhooks resend")

	s.says(s.slotwise(0, "webhooks", "recover", name, "--since", "1h"), "1 delivery planned again")
	s.want(key, "planned")
	s.says(s.slotwise(2, "webhooks", "recover", name), "--since")
	if said := s.slotwise(3, "webhooks", "resend", key); said != "slotwise: the delivery is still on its way\n" {
		t.Error(said)
	}
	s.says(s.slotwise(0, "pause", "webhooks"), "webhooks are paused")
	s.says(s.slotwise(0, "trace", b.ID), "waiting: webhooks are paused by dev")
	s.says(s.slotwise(0, "resume", "webhooks"), "not paused")
	s.exec(`update notifier.send_log set state = 'sent', accepted_at = now() where key = $1`, key)
	s.says(s.slotwise(0, "webhooks", "resend", key), "planned: "+key+"-c2")
	s.says(s.slotwise(0, "webhooks", "example", name), "planned: webhook-example-")

	s.says(s.slotwise(0, "webhooks", "disable", name, "--reason", "its receiver moves"), "disabled; 2 deliveries held")
	s.says(s.slotwise(0, "webhooks", "disable", name), "disabled already")
	s.says(s.slotwise(0, "webhooks", "list"), "disabled ", ": its receiver moves")
	if said := s.slotwise(3, "webhooks", "example", name); said != "slotwise: the endpoint is disabled: enable it first\n" {
		t.Error(said)
	}
	s.says(s.slotwise(3, "messages", "release", key+"-c2"), "nothing matches")
	s.says(s.slotwise(0, "webhooks", "enable", name), "enabled; 2 deliveries planned again")
	rotated := s.slotwise(0, "webhooks", "rotate", name, "--overlap", "1h")
	s.says(rotated, "secret   whsec_", "for 1h0m0s")
	s.says(s.slotwise(0, "webhooks", "show", name), "old secret signs until")
	s.says(s.slotwise(0, "messages", "discard", key+"-c2"), "1 message discarded")
	s.says(s.slotwise(2, "webhooks", "delete", name), "1 delivery waits for it and would never be made: say --yes to delete it for good")
	s.says(s.slotwise(0, "webhooks", "list"), name+"  enabled")
	s.says(s.slotwise(0, "webhooks", "delete", name, "--yes"), "deleted; 1 delivery skipped")
	s.says(s.slotwise(3, "webhooks", "delete", name), "no such endpoint")
	s.says(s.slotwise(0, "webhooks", "list"), "no endpoints")
	s.says(s.slotwise(0, "webhooks", "list", "--deleted"), name+"  deleted ")
	s.says(s.slotwise(0, "webhooks", "show", name), "state        deleted ")
	s.says(s.slotwise(0, "webhooks", "deliveries", name), key+"-c2", "skipped")
	s.says(s.slotwise(3, "webhooks", "delete", name, "--yes"), "no such endpoint")
	s.says(s.slotwise(0, "webhooks", "list", "--json"), `"endpoints": []`)
	other := s.slotwise(0, "webhooks", "create", "--url", "https://hooks.example/in")
	s.says(other, "no --owner: nobody is told when it is disabled")
	s.says(s.slotwise(0, "webhooks", "delete", strings.Fields(other)[1]), "deleted; 0 deliveries skipped") // none waits
}

// What is behind its endpoint is not overdue: disabled, failing, or paced. What is only late is.
func TestOverdueWebhooks(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.hostless()
	for _, name := range []string{"we_fine", "we_off", "we_failing", "we_paced"} {
		s.exec(`insert into notifier.endpoints (id, url, created_at) values ($1, 'https://hooks.example/', now() - interval '1 day')`, name)
	}
	s.announced(s.Book(seed.Booking{Resource: resource}))
	s.exec(`delete from notifier.send_log where channel = 'email'`)
	s.exec(`update notifier.send_log set due_at = now() - interval '6 minutes'`)
	s.exec(`update notifier.endpoints set failing_since = now() where id = 'we_failing'`)
	s.exec(`update notifier.endpoints set rate = 1 where id = 'we_paced'`)
	s.exec(`update notifier.endpoints set enabled = false, disabled_at = now(), disabled_reason = 'x' where id = 'we_off'`)
	check := func(want int) {
		t.Helper()
		late := must[message.Overdue](s, "ops.get.overdue", "")
		b, err := s.log.Backlog(t.Context())
		if err != nil || late.Overdue != want || b.Overdue != int64(want) || len(late.Messages) != want {
			t.Errorf("%d overdue, the gauge says %d, want %d: %v", late.Overdue, b.Overdue, want, err)
		}
	}
	check(1)
	s.exec(`select notifier.pause('webhooks', 'anna')`)
	check(0)
}

// Webhooks of one booking do not wait for each other, and many of them push no mail out of a trace.
func TestTraceWithManyWebhooks(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.exec(`insert into notifier.endpoints (id, url, created_at) select 'we_' || n, 'https://hooks.example/', now() - interval '1 day' from generate_series(1, 150) n`)
	b := s.Book(seed.Booking{Resource: resource})
	e := s.announced(b)
	s.exec(`update notifier.send_log set state = 'handed', token = gen_random_uuid(), handed_at = now(), lease_until = now() + interval '1 minute' where key = $1`, id.Webhook(e, "we_1"))
	story := s.story(b.ID)
	for _, host := range []bool{false, true} {
		if key := (id.Mail{Kind: "confirm", Booking: b.ID, Version: 1, Host: host}).String(); !strings.Contains(story, key) {
			t.Errorf("no %s in\n%s", key, story)
		}
	}
	if strings.Contains(story, "out of hand") || !strings.Contains(story, "waiting: due since") {
		t.Error(story)
	}
}
