package webhook

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/testkit/hooktest"
)

// expire ends every lease.
func (s *stage) expire() {
	s.t.Helper()
	s.exec(`update notifier.send_log set lease_until = now() - interval '1 second' where state = 'handed'`)
}

func (s *stage) sweep(sender *Sender) int {
	s.t.Helper()
	marks, err := sender.sweep(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return marks
}

// A delivery whose sender has died is marked and due at once, as often as that happens.
func TestSweep(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.endpoint("we_a", s.hooks.URL("/a"))
	key, sender := s.plan("we_a"), s.idle()
	for i := range 5 {
		s.one(sender)
		if n := s.sweep(sender); n != 0 {
			t.Fatalf("%d marks before a lease ended", n)
		}
		s.expire()
		if n := s.sweep(sender); n != 1 {
			t.Fatalf("%d marks, want 1", n)
		}
		s.want(key, "unknown: the lease ended")
		if n := s.number(`select unknowns from notifier.send_log`); n != int64(i+1) {
			t.Errorf("%d marks in the row, want %d", n, i+1)
		}
	}
	if n := s.number(`select count(*) from notifier.hands where unknown and outcome = 'unknown' and ended_at is not null`); n != 5 {
		t.Errorf("%d hands marked", n)
	}
	if n := s.number(`select count(*) from notifier.send_log where quiet_until is not null or attempts > 0`); n != 0 {
		t.Error("a webhook has a quiet time, or used up a try")
	}
	s.one(sender)
	s.expire()
	s.exec(`select notifier.disable_endpoint('we_a', 'x', 'anna')`)
	s.sweep(sender)
	s.want(key, "held: endpoint disabled")
}

// One sweep lets a backlog follow its endpoint, however many steps that takes.
func TestSweepHoldsABacklog(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.endpoint("we_a", s.hooks.URL("/a"))
	s.exec(`update notifier.endpoints set enabled = false, disabled_at = now(), disabled_reason = 'x'`)
	s.exec(`insert into notifier.send_log (key, channel, kind, endpoint, urgency, state, due_at)
		select 'waits-' || n, 'webhook', 'webhook', 'we_a', 0, 'planned', now() from generate_series(1, 2500) n`)
	s.sweep(s.idle())
	if n := s.number(`select count(*) from notifier.send_log where state = 'held' and reason = 'endpoint disabled'`); n != 2500 {
		t.Errorf("%d are held", n)
	}
}

// The mails' sweep leaves webhooks alone, and theirs the mails'.
func TestSweepsAreApart(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.endpoint("we_a", s.hooks.URL("/a"))
	key, sender := s.plan("we_a"), s.idle()
	s.exec(`insert into notifier.send_log (key, channel, kind, role, urgency, state, due_at, token, handed_at, lease_until)
		values ('mail', 'email', 'notice', 'host', 0, 'handed', now(), gen_random_uuid(), now(), now())`)
	s.one(sender)
	s.expire()
	if n, err := s.log.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("mails' sweep: %d, %v", n, err)
	}
	s.want(key, "handed")
	s.exec(`update notifier.send_log set state = 'handed', lease_until = now(), token = gen_random_uuid() where key = 'mail'`)
	if n := s.sweep(sender); n != 1 {
		t.Errorf("webhooks' sweep: %d", n)
	}
	s.want("mail", "handed: the lease ended")
	if hands, _, err := s.log.Hand(t.Context(), 10, 10); err != nil || len(hands) != 0 {
		t.Errorf("%d webhooks handed as mails: %v", len(hands), err)
	}
}

// A 2xx whose hand has lost the row counts by key; any other late result does not.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.endpoint("we_a", s.hooks.URL("/a"))
	sender := s.idle()
	late := func(then string) (key string, h Hand) {
		key = s.plan("we_a")
		h = s.one(sender)
		s.expire()
		s.sweep(sender)
		s.exec(then, key)
		return key, h
	}
	good, bad := ending{outcome: accepted, words: "204"}, ending{outcome: failed, words: "500"}
	for then, state := range map[string]string{
		`select $1::text`: "sent",
		`update notifier.send_log set state = 'held', reason = 'x' where key = $1`:    "sent",
		`update notifier.send_log set state = 'skipped', reason = 'x' where key = $1`: "skipped: x",
	} {
		key, h := late(then)
		s.write(sender, end{h, bad})
		s.write(sender, end{h, good})
		s.want(key, state)
		if n := s.number(`select count(*) from notifier.send_log where key = $1 and accepted_at is not null`, key); n != 1 {
			t.Errorf("%s: not accepted", state)
		}
	}
	key, h := late(`select $1::text`)
	again := s.one(sender)
	s.write(sender, end{h, good})
	s.want(key, "handed: the lease ended")
	s.write(sender, end{again, bad})
	s.want(key, "sent")
	if n := s.number(`select count(*) from notifier.hands where outcome = 'sent' and unknown`); n != 4 {
		t.Errorf("%d late hands are sent and stay marked, want 4", n)
	}
}

// SIGTERM: nothing more is handed, what is in flight gets its time, and results are written.
func TestStopWaitsForDeliveries(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	released := make(chan struct{})
	s.hooks.Script(hooktest.Fault{Until: released})
	s.endpoint("we_a", s.hooks.URL("/a"))
	keys := s.planMany("we_a", 6)
	r := s.start()
	s.hooks.Wait(4, soon)
	r.stop()
	select {
	case <-r.done:
		t.Error("it did not wait")
	case <-time.After(50 * time.Millisecond):
	}
	close(released)
	<-r.done
	sent := 0
	for _, key := range keys {
		if s.state(key) == "sent" {
			sent++
		} else {
			s.want(key, "planned")
		}
	}
	if sent != 4 {
		t.Errorf("%d sent, want the 4 that were in flight", sent)
	}
}

// When that time is over, what is left is cut off: marked, and due at once for the next sender.
func TestStopCutsOff(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.hooks.Script(hooktest.Fault{Times: 1, Silent: true})
	s.settings.Drain = 20 * time.Millisecond
	s.endpoint("we_a", s.hooks.URL("/a"))
	key := s.plan("we_a")
	r := s.start()
	s.hooks.Wait(1, soon)
	r.end()
	s.want(key, "unknown: cut off by us, maybe delivered")
	if n := s.number(`select count(*) from notifier.hands where unknown`); n != 1 || r.counter(t, "slotwise_webhook_unknown_marks_total", "cut off") != 1 {
		t.Errorf("%d marks", n)
	}
	if n := s.number(`select count(*) from notifier.endpoints where failing_since is not null`); n != 0 {
		t.Error("it counts as the endpoint's failure")
	}
	s.start()
	s.await(key, "sent")
}

// A sender that was frozen between the hand and the request sends nothing.
func TestLeaseOverBeforeTheRequest(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.endpoint("we_a", s.hooks.URL("/a"))
	s.plan("we_a")
	sender := s.idle()
	for _, frozen := range []time.Duration{46 * time.Second, time.Hour} {
		h := s.one(sender)
		h.begun = h.begun.Add(-frozen)
		sender.deliver(h)
		e := <-sender.ends
		if e.ending.outcome != lost {
			t.Errorf("frozen for %s: %+v", frozen, e.ending)
		}
		s.write(sender, e)
		s.exec(`update notifier.send_log set due_at = now()`)
	}
	wall := s.one(sender) // only the wall clock has gone on, as on a suspended machine
	now := time.Now()
	wall.begun = now
	if got := wall.since(now.Add(time.Minute).Round(0)); got != time.Minute {
		t.Errorf("by the wall clock %s", got)
	}
	if n := s.hooks.Count(""); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// PostgreSQL away while a delivery is in flight: its result is written when it is back.
func TestResultsWaitForPostgreSQL(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	released := make(chan struct{})
	s.hooks.Script(hooktest.Fault{Until: released})
	s.endpoint("we_a", s.hooks.URL("/a"))
	key := s.plan("we_a")
	s.start()
	s.hooks.Wait(1, soon)
	s.exec(`alter table notifier.endpoints rename to hidden`) // every statement fails
	close(released)
	s.until("a look in vain", func() bool { return s.state(key) == "handed" })
	s.exec(`alter table notifier.hidden rename to endpoints`)
	s.await(key, "sent")
	if n := s.hooks.Count(""); n != 1 {
		t.Errorf("%d requests", n)
	}
}
