package send_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/mailtest"
)

// leased are times with a short lease, so that what a dead sender had in hand is soon taken
// over.
func leased() sendlog.Times {
	t := quick()
	t.Lease, t.Renew, t.Sweep = 500*time.Millisecond, 150*time.Millisecond, 50*time.Millisecond
	t.Dot, t.Answer, t.Cap, t.Quiet = 2*time.Second, 2*time.Second, 4*time.Second, 5*time.Second
	t.MaxUnknowns = 100
	return t
}

// B19: the sender is killed 200 times with mails in hand, at every step of the dialogue. Each
// mail is sent, and each second copy is counted.
func TestB19KilledTwoHundredTimes(t *testing.T) {
	t.Parallel()
	const kills = 200
	s := newStage(t, leased(), mailtest.Options{})
	phases := []mailtest.Phase{mailtest.MAIL, mailtest.RCPT, mailtest.DATA, mailtest.Dot, mailtest.Dot}
	var keys []string
	next := s.startChild(2)
	for i := range kills {
		reached := make(chan struct{}, 1)
		fault := mailtest.Fault{Phase: phases[i%len(phases)], Times: 1, Match: func(mailtest.Command) bool {
			select {
			case reached <- struct{}{}:
			default:
			}
			return true
		}}
		pause := rand.N(20 * time.Millisecond)
		if i%len(phases) == 4 {
			fault.Late = pause // taken, but not answered yet
		} else {
			fault.Delay = pause
		}
		s.mail.Script(fault)
		doomed := next
		keys = append(keys, s.confirm(), s.confirm())
		next = s.startChild(2)
		select {
		case <-reached:
		case <-time.After(soon):
			t.Fatalf("no mail reaches %s", fault.Phase)
		}
		<-time.After(rand.N(10 * time.Millisecond))
		doomed.kill()
	}
	s.mail.Script()
	for _, k := range keys {
		s.await(k, "sent")
	}
	s.copiesAreMarked()
	copies, marks := len(s.mail.Messages())-len(keys), s.number(`select sum(unknowns) from notifier.send_log`)
	t.Logf("%d mails, %d second copies, %d marks", len(keys), copies, marks)
	if marks == 0 || int64(copies) > marks {
		t.Errorf("%d second copies, %d marks", copies, marks)
	}
	for k, n := range s.copies() {
		if marks := s.number(`select unknowns from notifier.send_log where key = $1`, k); int64(n-1) > marks {
			t.Errorf("%s: %d copies, %d marks", k, n, marks)
		}
	}
}

// B24: killed after the dot and before the row was written: the row says that nobody knows, and
// an operator can see it.
func TestB24KilledAfterTheDot(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Lease, times.Renew = 5*time.Second, time.Second
	s := newStage(t, times, mailtest.Options{})
	s.mail.Script(mailtest.Fault{Phase: mailtest.Dot, Times: 1, End: mailtest.Silent})
	doomed := s.startChild(1)
	k := s.confirm()
	s.mail.Wait(1, soon)
	doomed.kill()
	s.await(k, "handed")
	if _, err := s.log.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.await(k, "handed") // its lease is not over
	for end := time.Now().Add(soon); ; <-time.After(10 * time.Millisecond) {
		if marks, err := s.log.Sweep(t.Context()); err != nil || time.Now().After(end) {
			t.Fatalf("never swept: %v", err)
		} else if marks == 1 {
			break
		}
	}
	s.await(k, "unknown: the lease ended")
	s.startChild(1)
	s.await(k, "sent")
	if n := s.copies()[k]; n != 2 {
		t.Errorf("%d copies", n)
	}
	s.copiesAreMarked()
}

// Item 14 of issue 3: a sender is frozen in the middle of a dialogue, its row is taken over,
// and the booking changes meanwhile. The copy is counted, and the last mail is true.
func TestItem14FrozenAndTakenOver(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		phase  mailtest.Phase // whose answer the sender does not get to see
		cancel bool           // the booking is cancelled while it is frozen
		copies int            // of the confirmation
	}{
		"before the dot":                {mailtest.DATA, false, 1},
		"before the dot, then a cancel": {mailtest.DATA, true, 0},
		"after the dot":                 {mailtest.Dot, false, 2},
		"after the dot, then a cancel":  {mailtest.Dot, true, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			times := leased()
			if !tt.cancel { // nobody waits for the quiet time, and a late 250 is heard
				times.Answer, times.Cap, times.Quiet = soon, 2*soon, 3*soon
			}
			s := newStage(t, times, mailtest.Options{})
			release := make(chan struct{})
			s.mail.Script(mailtest.Fault{Phase: tt.phase, Times: 1, Until: release})
			frozen := s.startChild(1)
			b := s.book()
			confirm := message(b, sendlog.Confirm)
			s.plan(confirm)
			s.mail.WaitCounts("command", soon, func(c mailtest.Counts) bool { return c.DATA == 1 && (tt.phase == mailtest.DATA || c.Dots == 1) })
			frozen.freeze()
			var cancel sendlog.Message
			if tt.cancel {
				b = s.seed.Cancel(b)
				cancel = message(b, sendlog.Cancel)
				s.plan(cancel)
			}
			s.start() // takes over
			if tt.cancel {
				s.await(confirm.Key, "skipped: superseded by v2")
				close(release) // the server goes on with the frozen sender's mail
				s.await(cancel.Key, "sent")
			} else {
				s.await(confirm.Key, "sent")
				close(release)
			}
			frozen.thaw()
			s.mail.WaitCounts("end of the frozen dialogue", soon, func(c mailtest.Counts) bool { return tt.phase == mailtest.Dot || c.DATA > c.Dots })
			frozen.end()
			if n := s.copies()[confirm.Key]; n != tt.copies {
				t.Errorf("%d copies of the confirmation, want %d", n, tt.copies)
			}
			if n := s.number(`select unknowns from notifier.send_log where key = $1`, confirm.Key); n != 1 {
				t.Errorf("%d marks", n)
			}
			s.copiesAreMarked()
			kinds := s.kinds()[b.ID]
			if last := kinds[len(kinds)-1]; tt.cancel && last != sendlog.Cancel {
				t.Errorf("the last of %v is not the cancellation", kinds)
			}
			if tt.phase == mailtest.Dot && !tt.cancel { // the 250 came late but in time, and was written
				if n := s.number(`select count(*) from notifier.hands where key = $1 and outcome = 'sent' and unknown`, confirm.Key); n != 1 {
					t.Error("the late 250 is not written")
				}
			}
		})
	}
}
