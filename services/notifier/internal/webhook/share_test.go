package webhook

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/testkit/hooktest"
)

// counts are how many of hands each endpoint has.
func counts(hands []Hand) map[string]int {
	n := map[string]int{}
	for _, h := range hands {
		n[h.Endpoint]++
	}
	return n
}

// An endpoint's concurrency counts what all notifiers have in hand.
func TestConcurrencyOfAllNotifiers(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.endpoint("we_a", s.hooks.URL("/a"))
	s.exec(`update notifier.endpoints set concurrency = 3`)
	s.planMany("we_a", 10)
	first, second := s.idle(), s.idle()
	var hands []Hand
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, sender := range []*Sender{first, second, first, second} {
		asking.Go(func() {
			got, _, err := sender.hand(t.Context(), 10, 10)
			mu.Lock()
			defer mu.Unlock()
			hands = append(hands, got...)
			if err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	if len(hands) != 3 {
		t.Fatalf("%d in hand, want 3", len(hands))
	}
	s.write(second, end{hands[0], ending{outcome: accepted}}, end{hands[1], ending{outcome: failed}})
	if got := s.take(first, 10); len(got) != 2 {
		t.Errorf("%d in hand after two results, want 2", len(got))
	}
}

// A hand waits for that of another notifier, and then counts what it took.
func TestOneHandAtATime(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.endpoint("we_a", s.hooks.URL("/a"))
	s.exec(`update notifier.endpoints set concurrency = 1`)
	s.planMany("we_a", 2)
	other, err := s.db.Admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback(t.Context()) //nolint:errcheck // committed below
	for _, sql := range []string{turnSQL, `update notifier.send_log set state = 'handed', token = gen_random_uuid(), handed_at = now(), lease_until = now() + interval '1 minute'
		where key = (select min(key) from notifier.send_log)`} {
		if _, err := other.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	taken := make(chan int)
	go func() {
		hands, _, err := s.idle().hand(t.Context(), 10, 10)
		if err != nil {
			t.Error(err)
		}
		taken <- len(hands)
	}()
	s.until("the second hand waits", func() bool {
		return s.number(`select count(*) from pg_locks where locktype = 'advisory' and not granted and database = (select oid from pg_database where datname = current_database())`) == 1
	})
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := <-taken; n != 0 {
		t.Errorf("%d in hand beside the one that is", n)
	}
}

// When connections are few, every endpoint has its first delivery before anybody has a second,
// and what it has in hand already counts.
func TestEveryEndpointInTurn(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	for _, id := range []string{"we_a", "we_b", "we_c"} {
		s.endpoint(id, s.hooks.URL("/"+id))
		s.planMany(id, 20) // in this order: all of a's are due before any of c's
	}
	sender := s.idle()
	if got := counts(s.take(sender, 2)); got["we_a"] != 1 || got["we_b"] != 1 {
		t.Errorf("of two places: %v", got)
	}
	if got := counts(s.take(sender, 2)); got["we_c"] != 1 || got["we_a"] != 1 {
		t.Errorf("of two more: %v", got)
	}
	s.exec(`update notifier.endpoints set concurrency = 8 where id = 'we_b'`)
	if got := counts(s.take(sender, 100)); got["we_a"] != 2 || got["we_b"] != 7 || got["we_c"] != 3 {
		t.Errorf("of many: %v", got)
	}
}

// Endpoints that fail get no more than the places that are for them.
func TestFailingEndpointsShare(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	for i := range 10 {
		s.endpoint("we_bad"+strconv.Itoa(i), s.hooks.URL("/bad"))
		s.planMany("we_bad"+strconv.Itoa(i), 3)
	}
	s.exec(`update notifier.endpoints set failing_since = now()`)
	s.endpoint("we_good", s.hooks.URL("/good"))
	s.planMany("we_good", 10)
	sender := s.idle()
	hands, _, err := sender.hand(t.Context(), 10, 2)
	if got := counts(hands); err != nil || len(hands) != 6 || got["we_good"] != 4 {
		t.Errorf("%v, %v", got, err)
	}
	hands, wait, err := sender.hand(t.Context(), 10, 0)
	if err != nil || len(hands) != 0 || wait != s.times.Poll {
		t.Errorf("%v after %s: %v", counts(hands), wait, err)
	}
}

// A rate holds for all notifiers, and a second's worth may be saved up.
func TestRate(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.endpoint("we_a", s.hooks.URL("/a"))
	s.exec(`update notifier.endpoints set concurrency = 64, rate = 2`)
	s.planMany("we_a", 20)
	first, second := s.idle(), s.idle()
	if got := s.take(first, 10); len(got) != 3 { // the saved second, and the one that is due now
		t.Errorf("%d in hand, want 3", len(got))
	}
	hands, wait, err := second.hand(t.Context(), 10, 10)
	if err != nil || len(hands) != 0 || wait > s.times.Poll {
		t.Errorf("%d in hand, wait %s: %v", len(hands), wait, err)
	}
	s.exec(`update notifier.endpoint_pace set next_at = next_at - interval '1 second'`)
	if got := s.take(second, 10); len(got) != 2 {
		t.Errorf("%d in hand a second later, want 2", len(got))
	}
	s.exec(`update notifier.endpoint_pace set next_at = next_at - interval '1 day'`)
	if got := s.take(second, 10); len(got) != 3 {
		t.Errorf("%d in hand after a day, want 3", len(got))
	}
}

// What waits for its time, its endpoint's rest or its rate is looked at when that comes.
func TestWaitsAsLongAsNeeded(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Poll = time.Hour
	s := newStage(t, times, hooktest.Options{})
	s.endpoint("we_a", s.hooks.URL("/a"))
	sender := s.idle()
	wait := func() time.Duration {
		hands, wait, err := sender.hand(t.Context(), 10, 10)
		if err != nil || len(hands) > 0 {
			t.Fatalf("%d in hand: %v", len(hands), err)
		}
		return wait.Round(time.Minute)
	}
	if got := wait(); got != time.Hour {
		t.Errorf("with nothing to do it waits %s", got)
	}
	m := message(t, "we_a", booking, 1)
	m.DueAt = time.Now().Add(10 * time.Minute)
	s.planAll(m)
	if got := wait(); got != 10*time.Minute {
		t.Errorf("for what is due in 10 minutes it waits %s", got)
	}
	s.exec(`insert into notifier.endpoint_pace values ('we_a', now() + interval '20 minutes')`)
	if got := wait(); got != 20*time.Minute {
		t.Errorf("for who rests for 20 minutes it waits %s", got)
	}
	s.exec(`update notifier.switches set paused = true`)
	if got := wait(); got != time.Hour {
		t.Errorf("while paused it waits %s", got)
	}
}

// B115, B116: an endpoint that hangs and one that fails keep their own deliveries waiting, each row has
// its own tries, and nobody gets anything twice.
func TestB115B116SlowAndDeadEndpoints(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Steps = slices.Repeat([]time.Duration{20 * time.Millisecond}, 9)
	s := newStage(t, times, hooktest.Options{})
	released := make(chan struct{})
	s.hooks.Script(hooktest.Fault{Path: "/slow", Until: released}, hooktest.Fault{Path: "/dead", Status: 500})
	s.endpoint("we_slow", s.hooks.URL("/slow"))
	s.endpoint("we_dead", s.hooks.URL("/dead"))
	s.endpoint("we_good", s.hooks.URL("/good"))
	slow, dead := s.planMany("we_slow", 100), s.planMany("we_dead", 20)
	s.start()
	s.until("the slow endpoint hangs", func() bool { return s.hooks.Count("/slow") == 4 })
	good := s.planMany("we_good", 100)
	for _, key := range good {
		s.await(key, "sent")
	}
	for _, key := range dead {
		s.await(key, "held: too many tries: 500")
	}
	if n := s.hooks.Count("/slow"); n != 4 {
		t.Errorf("%d requests in flight to the slow endpoint", n)
	}
	close(released)
	for _, key := range slow {
		s.await(key, "sent")
	}
	seen := map[string]int{}
	for _, r := range s.hooks.Requests() {
		seen[r.ID()]++
	}
	for _, key := range slices.Concat(good, slow) {
		if seen[key] != 1 {
			t.Errorf("%s arrived %d times", key, seen[key])
		}
	}
	for _, key := range dead {
		if seen[key] != 10 {
			t.Errorf("%s was tried %d times, want 10", key, seen[key])
		}
	}
	if len(seen) != 220 || !strings.HasPrefix(good[0], "webhook-booking-") {
		t.Errorf("%d deliveries", len(seen))
	}
}

// A pause reaches webhooks, and mails go on; resumed, what was planned meanwhile goes.
func TestPause(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.endpoint("we_a", s.hooks.URL("/a"))
	s.exec(`select notifier.pause('webhooks', 'anna')`)
	key := s.plan("we_a")
	if got := s.take(s.idle(), 10); len(got) != 0 {
		t.Fatalf("%d in hand", len(got))
	}
	s.start()
	s.exec(`select notifier.resume('webhooks', 'anna')`)
	s.await(key, "sent")
}

// A webhook goes as soon as it is planned or due, without waiting for the poll.
func TestWakes(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Poll = time.Hour
	s := newStage(t, times, hooktest.Options{})
	s.endpoint("we_a", s.hooks.URL("/a"))
	s.start()
	s.await(s.plan("we_a"), "sent")
	m := message(t, "we_a", booking, 1)
	m.DueAt = time.Now().Add(500 * time.Millisecond)
	s.planAll(m)
	s.await(m.Key, "sent")
	for _, key := range s.planMany("we_a", 20) { // more than its concurrency: results wake
		s.await(key, "sent")
	}
}
