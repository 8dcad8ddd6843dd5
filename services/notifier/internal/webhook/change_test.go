package webhook

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/testkit/hooktest"
)

// B117: what waits while the endpoint is off arrives when it is on again.
func TestB117DisabledAndEnabled(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.endpoint("we_a", s.hooks.URL("/a"))
	s.exec(`update notifier.switches set paused = true where name = 'webhooks'`)
	s.start()
	keys := s.planMany("we_a", 6)
	s.exec(`select notifier.disable_endpoint('we_a', 'maintenance', 'anna')`)
	s.exec(`update notifier.switches set paused = false`)
	other := s.plan(s.endpoint("we_b", s.hooks.URL("/b")))
	s.await(other, "sent") // so the pause is over
	for _, key := range keys {
		s.want(key, "held: endpoint disabled")
	}
	if n := s.hooks.Count("/a"); n != 0 {
		t.Errorf("%d requests", n)
	}
	s.exec(`select notifier.enable_endpoint('we_a', 'anna')`)
	for _, key := range keys {
		s.await(key, "sent")
	}
	if n := s.hooks.Count("/a"); n != 6 {
		t.Errorf("%d requests, want 6", n)
	}
}

// Between two tries, or while one is in flight: what becomes of a delivery when its endpoint
// is disabled or deleted.
func TestDisabledOrDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	const disable, deleted = `select notifier.disable_endpoint('we_a', 'x', 'anna')`, `select notifier.delete_endpoint('we_a', 'anna')`
	tests := map[string]struct {
		change  string
		outcome outcome
		state   string
	}{
		"disabled, 500":     {disable, failed, "held: endpoint disabled"},
		"disabled, 410":     {disable, gone, "held: endpoint disabled"},
		"disabled, lost":    {disable, lost, "held: endpoint disabled"},
		"disabled, cut":     {disable, cut, "held: endpoint disabled"},
		"disabled, 204":     {disable, accepted, "sent"},
		"deleted, 500":      {deleted, failed, "skipped: endpoint deleted"},
		"deleted, cut":      {deleted, cut, "skipped: endpoint deleted"},
		"deleted, 204":      {deleted, accepted, "sent"},
		"deleted, nothing":  {deleted, unsendable, "skipped: endpoint deleted"},
		"disabled, nothing": {disable, unsendable, "held: x"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, quick(), hooktest.Options{})
			s.endpoint("we_a", s.hooks.URL("/a"))
			key, sender := s.plan("we_a"), s.idle()
			h := s.one(sender)
			waits := s.plan("we_a")
			s.exec(tt.change)
			if off := s.write(sender, end{h, ending{outcome: tt.outcome, words: "x"}}); len(off) != 0 {
				t.Errorf("disabled again: %v", off)
			}
			s.want(key, tt.state)
			s.want(waits, map[string]string{disable: "held: endpoint disabled", deleted: "skipped: endpoint deleted"}[tt.change])
			if hands := s.take(sender, 10); len(hands) != 0 {
				t.Errorf("%d in hand", len(hands))
			}
			if n := s.number(`select count(*) from notifier.send_log where kind = 'notice'`); n != 0 {
				t.Errorf("%d notices", n)
			}
		})
	}
}

// A hand that has taken a row reads the endpoint as it is then.
func TestReadAtTheHand(t *testing.T) {
	t.Parallel()
	for change, state := range map[string]string{
		`update notifier.endpoints set enabled = false, disabled_at = now(), disabled_reason = 'x'`:                                               "held: endpoint disabled",
		`update notifier.endpoints set enabled = false, disabled_at = now(), disabled_reason = 'x', url = null, owner = null, deleted_at = now()`: "skipped: endpoint deleted",
	} {
		s := newStage(t, quick(), hooktest.Options{})
		s.endpoint("we_a", s.hooks.URL("/a"))
		key := s.plan("we_a")
		const token = "5e1f7f5c-93a1-4f4e-a0c5-1c2f6f0f9a3b"
		s.exec(`update notifier.send_log set state = 'handed', token = $1, handed_at = now(), lease_until = now() + interval '1 minute'`, token)
		s.exec(change) // between the two statements of a hand
		s.exec(readSQL, token)
		s.want(key, state)
		if n := s.number(`select count(*) from notifier.hands`); n != 0 {
			t.Errorf("%d hands counted", n)
		}
	}
}

// The next try goes to the URL, and is signed by the secrets, of the moment.
func TestURLChangedBetweenTries(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.times.Steps = []time.Duration{time.Hour}
	s.hooks.Script(hooktest.Fault{Path: "/old", Status: 500})
	s.endpoint("we_a", s.hooks.URL("/old"))
	key := s.plan("we_a")
	s.start()
	s.await(key, "planned: 500")
	s.exec(`update notifier.endpoints set url = $1`, s.hooks.URL("/new"))
	s.exec(`update notifier.send_log set due_at = now()`)
	s.await(key, "sent")
	if old, now := s.hooks.Count("/old"), s.hooks.Count("/new"); old != 1 || now != 1 {
		t.Errorf("%d requests to the old URL, %d to the new", old, now)
	}
}

// B120: a rotation between tries: both signatures until the old secret's time is over, then one, and the
// old one is deleted.
func TestB120RotationBetweenTries(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.times.Steps = []time.Duration{time.Hour, time.Hour, time.Hour}
	s.hooks.Script(hooktest.Fault{Times: 2, Status: 500})
	s.endpoint("we_a", s.hooks.URL("/a"))
	key := s.plan("we_a")
	s.start()
	s.await(key, "planned: 500")
	s.exec(`update notifier.endpoint_secrets set expires_at = now() + interval '24 hours'`)
	s.exec(`insert into notifier.endpoint_secrets (endpoint, secret) values ('we_a', $1)`, secret("b"))
	s.exec(`update notifier.send_log set due_at = now()`)
	s.until("the second try", func() bool { return s.number(`select count(*) from notifier.hands where ended_at is not null`) == 2 })
	s.exec(`update notifier.endpoint_secrets set expires_at = now() where expires_at is not null`)
	s.exec(`update notifier.send_log set due_at = now()`)
	s.await(key, "sent")
	for i, want := range []struct{ signatures, a, b int }{{1, 1, 0}, {2, 1, 1}, {1, 0, 1}} {
		r := s.hooks.Requests()[i]
		if n := len(strings.Fields(r.Header.Get("Webhook-Signature"))); n != want.signatures {
			t.Errorf("try %d: %d signatures", i+1, n)
		}
		for name, good := range map[string]int{"a": want.a, "b": want.b} {
			if err := r.Verify(secret(name)); (err == nil) != (good == 1) {
				t.Errorf("try %d, secret %s: %v", i+1, name, err)
			}
		}
	}
	s.until("the old secret is deleted", func() bool { return s.number(`select count(*) from notifier.endpoint_secrets`) == 1 })
}

// A secret that has expired signs nothing, also before the sweep deletes it.
func TestB120ExpiredSecret(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.endpoint("we_a", s.hooks.URL("/a"))
	s.exec(`update notifier.endpoint_secrets set expires_at = now() - interval '1 millisecond'`)
	s.exec(`insert into notifier.endpoint_secrets (endpoint, secret, expires_at) values ('we_a', $1, now() + interval '1 hour'), ('we_a', $2, null)`, secret("b"), secret("c"))
	s.plan("we_a")
	if h := s.one(s.idle()); !slices.Equal(h.Secrets, []string{secret("c"), secret("b")}) {
		t.Errorf("%d secrets, in another order, or expired ones", len(h.Secrets))
	}
}

// 410 disables at once, only failures for five days do too; each tells the owner once.
func TestB119Disables(t *testing.T) {
	t.Parallel()
	s := newStage(t, DefaultTimes(), hooktest.Options{})
	s.endpoint("we_a", s.hooks.URL("/a"))
	sender := s.idle()
	s.planMany("we_a", 3)
	notices := `select count(*) from notifier.send_log where kind = 'notice' and channel = 'email' and role = 'host' and endpoint = 'we_a' and booking is null`

	failing := func(since string, outcomes ...outcome) (off []disabled) {
		s.exec(`update notifier.endpoints set failing_since = now() - $1::text::interval`, since)
		s.exec(`update notifier.send_log set due_at = now() - interval '1 second', state = 'planned', attempts = 0 where channel = 'webhook'`)
		hands := s.take(sender, 3)
		var ends []end
		for i, outcome := range outcomes {
			ends = append(ends, end{hands[i], ending{outcome: outcome, words: "500 no"}})
		}
		off = s.write(sender, ends...)
		if again := s.write(sender, ends...); len(again) != 0 { // its commit's answer was lost
			t.Errorf("disabled twice: %v", again)
		}
		s.exec(`update notifier.send_log set state = 'planned', token = null, lease_until = null where state = 'handed'`)
		return off
	}
	for _, tt := range [][]outcome{{failed, accepted}, {accepted}, {lost}} {
		if off := failing("6 days", tt...); len(off) != 0 {
			t.Errorf("disabled after %v: %v", tt, off)
		}
	}
	if off := failing("119 hours", failed); len(off) != 0 || s.number(notices) != 0 {
		t.Errorf("disabled before five days: %v", off)
	}
	off := failing("121 hours", failed, failed)
	if len(off) != 1 || off[0].ID != "we_a" || !strings.HasPrefix(off[0].Reason, "it has only failed since ") || !strings.HasSuffix(off[0].Reason, ", at last with: 500 no") {
		t.Errorf("after five days: %v", off)
	}
	if n := s.number(notices); n != 1 {
		t.Errorf("%d notices, want 1", n)
	}
	if got := s.text(`select enabled || ' ' || (disabled_reason = $1) || ' ' || (select count(*) from notifier.operations where operation = 'disable endpoint' and operator = 'notifier') from notifier.endpoints`, off[0].Reason); got != "false true 1" {
		t.Errorf("the endpoint: %s", got)
	}
	s.exec(`update notifier.send_log set state = 'held', reason = 'endpoint disabled' where channel = 'webhook'`)
	s.exec(`select notifier.enable_endpoint('we_a', 'anna')`)
	if n := s.number(`select count(*) from notifier.endpoints where failing_since is not null`); n != 0 {
		t.Error("its failures are not forgotten")
	}
	if off := failing("1 minute", failed, gone, failed); len(off) != 1 || off[0].Reason != "it has answered 410 Gone" || s.number(notices) != 2 {
		t.Errorf("after 410: %v, %d notices", off, s.number(notices))
	}
	if n := s.number(`select count(*) from notifier.send_log where channel = 'webhook' and state = 'held' and reason = 'endpoint disabled'`); n == 0 {
		t.Error("nothing is held")
	}
}

// B119 whole: an endpoint that only fails is disabled by the sender that finds it out, and counted.
func TestB119DeadEndpoint(t *testing.T) {
	t.Parallel()
	times := quick()
	times.GiveUp = 100 * time.Millisecond
	times.Steps = nil
	for range 30 {
		times.Steps = append(times.Steps, 20*time.Millisecond)
	}
	s := newStage(t, times, hooktest.Options{})
	s.hooks.Script(hooktest.Fault{Path: "/dead", Status: 500})
	dead := s.plan(s.endpoint("we_dead", s.hooks.URL("/dead")))
	r := s.start()
	s.await(dead, "held: endpoint disabled")
	s.until("one is counted", func() bool { return r.counter(t, "slotwise_webhook_endpoints_disabled_total", "") == 1 })
	later := s.endpoint("we_gone", s.hooks.URL("/gone"))
	s.hooks.Script(hooktest.Fault{Path: "/gone", Status: 410, Body: "bye"})
	key := s.plan(later)
	s.await(key, "held: endpoint disabled")
	if n := s.number(`select count(*) from notifier.send_log where kind = 'notice'`); n != 2 || s.hooks.Count("/gone") != 1 {
		t.Errorf("%d notices, %d requests to who is gone", n, s.hooks.Count("/gone"))
	}
}
