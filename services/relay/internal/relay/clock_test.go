package relay

import (
	"strings"
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	now := time.Now()
	claim := clock{began: now, limit: 10 * time.Second}
	for name, c := range map[string]struct {
		now  time.Time
		over bool
	}{
		"at once":                     {now, false},
		"just in time":                {now.Add(10*time.Second - 1), false},
		"too late by both clocks":     {now.Add(10 * time.Second), true},
		"the wall clock alone":        {now.Round(0).Add(10 * time.Second), true},
		"the wall clock was set back": {now.Round(0).Add(-time.Hour), false},
		"thawed after a night":        {now.Add(8 * time.Hour), true},
	} {
		if err := claim.over(c.now); (err != nil) != c.over {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A claim that is too old sends nothing more and leaves its rows as they were.
func TestOldClaimSendsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fill(80)
	relay, lines := r.start(func(s *Settings) { s.Times.Claim = time.Nanosecond })
	r.eventually("two pauses", func() bool { return lines.FilterMessage("relay pauses").Len() >= 2 })
	if reason := relay.State().Reason; !strings.Contains(reason, "the claim is") {
		t.Errorf("it pauses because %s", reason)
	}
	if n := len(r.stored()); n != 0 {
		t.Errorf("%d messages", n)
	}
	if n := r.count(waitingRows + ` and attempts = 0`); n != 80 {
		t.Errorf("%d rows wait untouched", n)
	}
}

// A row's number of attempts tells how long ago it was first refused.
func TestTimesOfARefusedRow(t *testing.T) {
	times := DefaultTimes(5 * time.Second)
	var since time.Duration
	for n := 1; ; n++ {
		if times.parks(n) {
			if since < 10*time.Minute || since > 11*time.Minute {
				t.Errorf("parked at refusal %d, %s after the first", n, since)
			}
			return
		}
		wait := times.again(n)
		if wait > time.Minute || n <= 6 && wait != time.Second<<(n-1) {
			t.Errorf("refusal %d waits %s", n, wait)
		}
		since += wait
	}
}
