package webhook

import (
	"errors"
	"fmt"
	"time"
)

// Times are all the times and limits of deliveries, in one place because they hold only
// together: see [Times.Check]. Tests make them small.
type Times struct {
	Steps     []time.Duration // waits after the first, second … failure; after one more the delivery is held
	Spread    float64         // a wait is longer by up to this part of it, so that equal waits do not arrive together
	RetryCap  time.Duration   // longest Retry-After that is honoured
	Timeout   time.Duration   // one try: look-up, connection, request and answer together
	Dial      time.Duration   // the connection to one address, within Timeout
	Lease     time.Duration   // a hand stands so long; then anybody may take the delivery over
	GiveUp    time.Duration   // an endpoint that only failed for so long is disabled
	Lost      time.Duration   // a try that ended by our own fault is tried again after this
	Sweep     time.Duration   // from one sweep to the next
	Poll      time.Duration   // longest time between two looks for due deliveries
	KeepAlive time.Duration   // a connection without work is closed after this
}

// DefaultTimes are the times that production runs with.
func DefaultTimes() Times {
	return Times{
		Steps: []time.Duration{
			5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
			10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour, // the table of Standard Webhooks
		},
		Spread: .2, RetryCap: time.Hour,
		Timeout: 15 * time.Second, Dial: 5 * time.Second, Lease: time.Minute,
		GiveUp: 5 * 24 * time.Hour, Lost: 10 * time.Second,
		Sweep: 10 * time.Second, Poll: 5 * time.Second,
		KeepAlive: 4 * time.Second, // Node's servers close after 5 s: a request must not meet that
	}
}

// ErrTimes says that times contradict each other.
var ErrTimes = errors.New("times of webhooks contradict each other")

// Check returns [ErrTimes], with the rule, unless a try ends well before its lease.
func (t Times) Check() error {
	rules := []struct {
		holds bool
		rule  string
	}{
		{len(t.Steps) > 0, "there is a wait"},
		{t.Spread >= 0 && t.Spread <= 1, "0 <= spread <= 1"},
		{t.RetryCap > 0 && t.GiveUp > 0 && t.Lost > 0 && t.Sweep > 0 && t.Poll > 0 && t.KeepAlive > 0, "every time is positive"},
		{0 < t.Dial && t.Dial <= t.Timeout, "0 < dial <= timeout"},
		{2*t.Timeout <= t.Lease, "two timeouts fit into a lease: the result has to be written within it too"},
	}
	for _, step := range t.Steps {
		rules = append(rules, struct {
			holds bool
			rule  string
		}{step > 0, "every wait is positive"})
	}
	for _, r := range rules {
		if !r.holds {
			return fmt.Errorf("%w: not %s", ErrTimes, r.rule)
		}
	}
	return nil
}
