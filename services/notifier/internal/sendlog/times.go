package sendlog

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slotwise/slotwise/pkg/config"
)

// Times are all the times and limits of the protocol, in one place because they hold only
// together: see [Times.Check]. Tests make them small.
type Times struct {
	Dot    time.Duration // from the hand to the write of the final dot, all phases together
	Answer time.Duration // from the dot to its answer (RFC 5321 §4.5.3.2.6)
	Lease  time.Duration // how long a hand stands without being renewed
	Renew  time.Duration // how often a living dialogue renews its lease
	Cap    time.Duration // a lease never reaches beyond handed_at + Cap
	Sweep  time.Duration // how often leases that are over are marked
	Quiet  time.Duration // from a hand that was marked to the next other mail of its slot

	Steps       []time.Duration // waits after the first, second … 4xx; the last is repeated
	MaxAttempts int             // held at this many 4xx answers
	GiveUp      time.Duration   // held at the first 4xx answer that comes this long after the first one
	MaxUnknowns int             // held at this many unknown marks, and at each one after it

	Late    time.Duration // rows past due by more are backlog: planned so, they go last; SEND_RATE paces them
	CatchUp time.Duration // rows past due by more are held
	Overdue time.Duration // rows past due by more are what an operator watches

	Poll    time.Duration // a sender looks at least this often
	Connect time.Duration // to open a TCP connection
	Greet   time.Duration // each of greeting, EHLO, STARTTLS and AUTH (RFC 5321 §4.5.3.2.1)
	Idle    time.Duration // a connection without work is closed after this
	Base    time.Duration // first wait for a connection that can't be had
	Max     time.Duration // longest wait for one

	Audit  time.Duration // from one audit to the next
	Young  time.Duration // an outbox row younger than this ends the audit's walk: one before it may not be committed yet
	Missed time.Duration // the audit plans a reminder this long after remind_at, or after a quarter of the lead if that is less
	Rewind time.Duration // how often the audit's mark goes back, and how far
}

// DefaultTimes are the times that production runs with.
func DefaultTimes() Times {
	return Times{
		Dot: 2 * time.Minute, Answer: 10 * time.Minute,
		Lease: time.Minute, Renew: 20 * time.Second, Cap: 12 * time.Minute,
		Sweep: 10 * time.Second, Quiet: 15 * time.Minute,
		Steps:       []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour},
		MaxAttempts: 20, GiveUp: 48 * time.Hour, MaxUnknowns: 3,
		Late: 10 * time.Minute, CatchUp: 24 * time.Hour, Overdue: 5 * time.Minute,
		Poll: 5 * time.Second, Connect: 30 * time.Second, Greet: 5 * time.Minute, Idle: 30 * time.Second,
		Base: time.Second, Max: time.Minute,
		Audit: time.Minute, Young: 2 * time.Minute, Missed: 5 * time.Minute, Rewind: time.Hour,
	}
}

// ReadTimes reads CATCH_UP_LIMIT and AUDIT_EVERY; the other times are no settings, because the promise
// stands on them. Binaries built with the tag rehearsal read SLOTWISE_TIMES as well.
func ReadTimes(env *config.Reader) Times {
	t := DefaultTimes()
	t.CatchUp = env.Duration("CATCH_UP_LIMIT", t.CatchUp, time.Hour, 30*24*time.Hour, "a message past due by more is held until somebody releases it")
	t.Audit = env.Duration("AUDIT_EVERY", t.Audit, time.Second, 10*time.Minute, "from one audit to the next")
	t = rehearse(env, t)
	if err := t.Check(); err != nil {
		env.Mistake("SLOTWISE_TIMES", err.Error())
	}
	return t
}

// ErrTimes says that times of the protocol contradict each other.
var ErrTimes = errors.New("times contradict each other")

// Check returns [ErrTimes], with the rule, unless a dialogue that keeps to the times ends
// before its lease can't be renewed any more, and that before the quiet time ends.
func (t Times) Check() error {
	rules := []struct {
		holds bool
		rule  string
	}{
		{t.Dot > 0 && t.Answer > 0 && t.Sweep > 0 && t.Poll > 0 && t.Base > 0 && t.Connect > 0 && t.Greet > 0 && t.Idle > 0, "every time is positive"},
		{t.Dot+t.Answer <= t.Cap, "dot + answer <= cap"},
		{t.Cap < t.Quiet, "cap < quiet"},
		{0 < t.Renew && 2*t.Renew < t.Lease, "two renewals fit into a lease"},
		{t.Lease <= t.Cap, "lease <= cap"},
		{t.Base <= t.Max, "base <= max"},
		{len(t.Steps) > 0 && slices.IsSorted(t.Steps) && t.Steps[0] > 0, "the waits after a 4xx rise"},
		{0 < t.Audit && t.Audit < t.Rewind && t.Young > 0 && t.Missed > 0, "0 < audit < rewind, young and missed"},
		{t.MaxAttempts > 0 && t.MaxUnknowns > 0 && t.GiveUp > 0, "every limit is positive"},
		{0 < t.Overdue && t.Overdue <= t.Late && t.Late < t.CatchUp, "overdue <= late < catch-up limit"},
	}
	for _, r := range rules {
		if !r.holds {
			return fmt.Errorf("%w: not %s", ErrTimes, r.rule)
		}
	}
	return nil
}
