package relay

import (
	"errors"
	"time"

	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/pkg/retry"
)

// Times are the protocol's. Tests make them small, releases use [DefaultTimes].
type Times struct {
	Poll   time.Duration // how often to look without a doorbell
	Claim  time.Duration // all messages of one claim are sent within this
	Answer time.Duration // how long to wait for answers after the last of them
	Tx     time.Duration // the claim's transaction, from begin to commit

	Pause     retry.Backoff // of the relay, when the stream or the way to it is the trouble
	Again     retry.Backoff // of a row that was refused itself; without jitter
	ParkAfter time.Duration // since a row's first refusal

	Stuck time.Duration // a relay that has finished no pass for so long is dead
}

// DefaultTimes returns the times of design and doc.go, with this poll.
func DefaultTimes(poll time.Duration) Times {
	return Times{
		Poll:      poll,
		Claim:     10 * time.Second,
		Answer:    5 * time.Second,
		Tx:        pgdb.TxTimeout,
		Pause:     retry.Backoff{Base: time.Second, Max: time.Minute},
		Again:     retry.Backoff{Base: time.Second, Max: time.Minute},
		ParkAfter: 10 * time.Minute,
		Stuck:     2 * time.Minute,
	}
}

// check reports times that contradict each other.
func (t Times) check() error {
	switch {
	case t.Claim+t.Answer >= t.Tx || t.Tx > pgdb.TxTimeout:
		return errors.New("a claim must end before its transaction does")
	case t.Pause.Max+t.Tx >= t.Stuck || t.Poll+t.Tx >= t.Stuck:
		return errors.New("a relay that waits must not look stuck")
	case t.Again.Base <= 0 || t.Again.Max < t.Again.Base:
		return errors.New("a refused row must wait, and ever longer")
	}
	return nil
}

// again is how long a row waits after its refusal number n, counted from 1. There is no
// jitter, so that a row's number of attempts tells how long ago it was first refused.
func (t Times) again(n int) time.Duration {
	wait := t.Again.Base
	for i := 1; i < n && wait < t.Again.Max; i++ {
		wait *= 2
	}
	return min(wait, t.Again.Max)
}

// parks reports whether a row is parked at its refusal number n: the waits before it add up
// to ParkAfter or more.
func (t Times) parks(n int) bool {
	var since time.Duration
	for i := 1; i < n && since < t.ParkAfter; i++ {
		since += t.again(i)
	}
	return since >= t.ParkAfter
}
