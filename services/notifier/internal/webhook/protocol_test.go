package webhook

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/testkit/hooktest"
)

// TestProtocol has three senders deliver to four endpoints that answer at random (late, wrong, never), that are
// disabled, enabled and given other secrets meanwhile, while senders are stopped in the midst and leases end
// early. Afterwards every delivery of an endpoint that is there has arrived and stands as sent; nothing
// waits for the one that was deleted; and no hand of a delivery is without its end.
func TestProtocol(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Steps = slices.Repeat([]time.Duration{20 * time.Millisecond}, 1000)
	times.Timeout, times.Dial, times.Lease = 200*time.Millisecond, 200*time.Millisecond, 450*time.Millisecond
	s := newStage(t, times, hooktest.Options{})
	s.settings.Drain = 30 * time.Millisecond
	one := func(in int) func(hooktest.Request) bool {
		return func(hooktest.Request) bool { return rand.IntN(in) == 0 }
	}
	s.hooks.Script(
		hooktest.Fault{Match: one(20), Status: 500},
		hooktest.Fault{Match: one(20), Close: true},
		hooktest.Fault{Match: one(40), Silent: true},
		hooktest.Fault{Match: one(40), Delay: 150 * time.Millisecond},
		hooktest.Fault{Match: one(100), Status: 410},
		hooktest.Fault{Match: one(50), Status: 302},
	)
	ids := []string{"we_a", "we_b", "we_c", "we_d"}
	for _, id := range ids {
		s.endpoint(id, s.hooks.URL("/"+id))
	}
	senders := []*sender{s.start(), s.start(), s.start()}
	keys := map[string][]string{}
	var ending sync.WaitGroup
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); <-time.After(rand.N(10 * time.Millisecond)) {
		id := ids[rand.IntN(len(ids))]
		keys[id] = append(keys[id], s.planMany(id, 1+rand.IntN(3))...)
		switch rand.IntN(17) {
		case 0:
			s.exec(`select notifier.disable_endpoint($1, 'x', 'anna')`, id)
		case 1, 2, 3:
			s.exec(`select notifier.enable_endpoint($1, 'anna')`, id)
		case 4:
			s.exec(`select notifier.rotate_secret($1, interval '0', 'anna')`, id)
		case 5:
			i := rand.IntN(len(senders))
			old := senders[i]
			senders[i] = s.start()
			ending.Go(old.end)
		case 7:
			s.exec(`select notifier.tidy_endpoints()`)
		case 8: // of what is disabled it is refused
			s.exec(`select notifier.recover_endpoint(id, now() - interval '1 hour', 'anna') from notifier.endpoints where id = $1 and enabled for no key update`, id)
		case 6: // as after a sender that froze
			s.exec(`update notifier.send_log set lease_until = now() where state = 'handed' and random() < .3`)
		}
	}
	s.exec(`select notifier.delete_endpoint('we_d', 'anna')`)
	s.hooks.Script()
	ending.Wait()
	s.until("nothing waits", func() bool {
		for _, id := range ids {
			s.exec(`select notifier.enable_endpoint($1, 'anna')`, id)
		}
		return s.number(`select count(*) from notifier.send_log where channel = 'webhook' and state not in ('sent', 'skipped')`) == 0
	})
	arrived := map[string]bool{}
	for _, r := range s.hooks.Requests() {
		arrived[r.ID()] = true
	}
	for _, id := range ids {
		for _, key := range keys[id] {
			if state := s.state(key); state != "sent" && (id != "we_d" || state != "skipped: endpoint deleted") || state == "sent" && !arrived[key] {
				t.Errorf("%s is %q, arrived: %t", key, state, arrived[key])
			}
		}
	}
	// A hand that ended twice, or whose sender was stopped, has one end all the same.
	if n := s.number(`select count(*) from notifier.hands where ended_at is null`); n != 0 {
		t.Errorf("%d hands have no end", n)
	}
	if n := s.number(`select count(*) from notifier.send_log s where unknowns <> (select count(*) from notifier.hands h where h.key = s.key and h.unknown)`); n != 0 {
		t.Errorf("%d rows count other marks than their hands", n)
	}
	t.Logf("%d deliveries, %d tries, %d marks, %d notices", len(arrived), s.number(`select count(*) from notifier.hands`),
		s.number(`select count(*) from notifier.hands where unknown`), s.number(`select count(*) from notifier.send_log where kind = 'notice'`))
}
