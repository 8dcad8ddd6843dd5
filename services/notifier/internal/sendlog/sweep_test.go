package sendlog_test

import (
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

// B24: nobody knows whether the mail went, and that is what the row says.
func TestB24SweepMarks(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	booking := f.book()
	confirm := mail(booking, sendlog.Confirm, 1)
	f.plan(confirm)
	old := f.one()
	if marks := f.sweep(); marks != 0 {
		t.Fatalf("swept %d whose lease is not over", marks)
	}
	f.cancel(booking)
	cancel := mail(booking, sendlog.Cancel, 2)
	f.plan(cancel)
	f.expire()
	if marks := f.sweep(); marks != 1 {
		t.Fatalf("swept %d", marks)
	}
	f.want(confirm.Key, "unknown: the lease ended")
	if n := f.number(`select count(*) from notifier.hands where token = $1 and outcome = 'unknown' and unknown and ended_at is not null`, old.Token); n != 1 {
		t.Error("the hand is not marked")
	}
	if n := f.number(`select count(*) from notifier.send_log where quiet_until = handed_at + interval '15 minutes'`); n != 1 {
		t.Error("no quiet time")
	}
	// The slot's other row waits for the quiet time; the marked one may go at once, and is
	// superseded then.
	if got := f.seconds("due_at", cancel.Key); got < 895 {
		t.Errorf("the cancellation is due in %d s", got)
	}
	f.dueNow() // the quiet time itself is the rule, not the due time
	if hands := f.hand(4); len(hands) != 0 {
		t.Fatalf("handed %+v", hands)
	}
	f.want(confirm.Key, "skipped: superseded by v2")
	f.want(cancel.Key, "planned")
	f.passQuiet()
	if h := f.one(); h.Key != cancel.Key {
		t.Errorf("handed %s", h.Key)
	}
}

func TestSweepTriesTheSameMailAtOnce(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	m := mail(f.book(), sendlog.Confirm, 1)
	f.plan(m)
	first := f.one()
	f.expire()
	f.sweep()
	second := f.one()
	if second.Key != first.Key || second.Token == first.Token || second.N != 2 || second.Unknowns != 1 {
		t.Errorf("handed %+v", second)
	}
}

// What the claim can't see, because its snapshot is older, the read finds: the row is put back
// to the end of the quiet time, and no hand is counted.
func TestHandPutBackIntoQuietTime(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	booking := f.book()
	f.cancel(booking)
	confirm, cancel := mail(booking, sendlog.Confirm, 1), mail(booking, sendlog.Cancel, 2)
	f.plan(confirm, cancel)

	tx, err := f.db.Admin.Begin(f.ctx()) // another sender, that has the older mail in hand
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(f.ctx()) //nolint:errcheck // committed below, unless the test fails
	if _, err := tx.Exec(f.ctx(), `update notifier.send_log set state = 'handed', token = gen_random_uuid(), handed_at = now(), lease_until = now()
		where key = $1`, confirm.Key); err != nil {
		t.Fatal(err)
	}
	done := make(chan []sendlog.Hand)
	go func() {
		hands, more, err := f.Hand(f.ctx(), 4, 4)
		if err != nil || !more {
			t.Errorf("more %t: %v", more, err)
		}
		done <- hands
	}()
	f.awaitLock()
	if _, err := tx.Exec(f.ctx(), `update notifier.send_log set state = 'unknown', lease_until = null, unknowns = 1, quiet_until = now() + interval '15 minutes'
		where key = $1`, confirm.Key); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(f.ctx()); err != nil {
		t.Fatal(err)
	}
	if hands := <-done; len(hands) != 0 {
		t.Errorf("handed %+v", hands)
	}
	f.want(cancel.Key, "planned")
	if got := f.seconds("due_at", cancel.Key); got < 895 {
		t.Errorf("due in %d s, want at the end of the quiet time", got)
	}
	if n := f.number(`select count(*) from notifier.hands`); n != 0 {
		t.Errorf("%d hands counted", n)
	}
}

// A hand that loses the race for a slot is tried again, and takes what is left.
func TestHandLosesRaceForSlot(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	booking := f.book()
	confirm, reminder, other := mail(booking, sendlog.Confirm, 1), mail(booking, sendlog.Reminder, 1), mail(f.book(), sendlog.Confirm, 1)
	f.plan(confirm, reminder, other)
	tx, err := f.db.Admin.Begin(f.ctx())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(f.ctx()) //nolint:errcheck // committed below, unless the test fails
	if _, err := tx.Exec(f.ctx(), `update notifier.send_log set state = 'handed', token = gen_random_uuid(), handed_at = now(), lease_until = now() + interval '1 minute'
		where key = $1`, confirm.Key); err != nil {
		t.Fatal(err)
	}
	done := make(chan []sendlog.Hand)
	go func() {
		hands, _, err := f.Hand(f.ctx(), 4, 4)
		if err != nil {
			t.Error(err)
		}
		done <- hands
	}()
	f.awaitLock()
	if err := tx.Commit(f.ctx()); err != nil {
		t.Fatal(err)
	}
	if hands := <-done; len(hands) != 1 || hands[0].Key != other.Key {
		t.Errorf("handed %+v", hands)
	}
}

// awaitLock returns once a session of the database waits for a lock.
func (f fixture) awaitLock() {
	f.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if f.number(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) > 0 {
			return
		}
	}
	f.t.Fatal("nobody waits for a lock")
}

// Two sweeps mark a row once.
func TestSweepTwoAtOnce(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	var all []sendlog.Message
	for range 50 {
		all = append(all, mail(f.book(), sendlog.Confirm, 1))
	}
	f.plan(all...)
	f.hand(50)
	f.expire()
	var mu sync.Mutex
	total := 0
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			marks, err := f.Sweep(f.ctx())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			total += marks
			mu.Unlock()
		})
	}
	wg.Wait()
	if n := f.number(`select sum(unknowns) from notifier.send_log`); total != 50 || n != 50 {
		t.Errorf("%d swept, %d marks", total, n)
	}
}

func TestLeaseIsRenewedToItsCap(t *testing.T) {
	t.Parallel()
	times := sendlog.DefaultTimes()
	f := open(t, times)
	m := mail(f.book(), sendlog.Confirm, 1)
	f.plan(m)
	h := f.one()
	renew := func() {
		t.Helper()
		if err := f.Renew(f.ctx(), []sendlog.Hand{h}); err != nil {
			t.Fatal(err)
		}
	}
	if h.Lease.Over(time.Now()) || !h.Lease.Over(time.Now().Add(times.Lease)) {
		t.Error("a fresh lease is not a minute long")
	}
	renew()
	if got := f.seconds("lease_until", m.Key); got < 59 || got > 60 {
		t.Errorf("renewed for %d s", got)
	}
	f.exec(`update notifier.send_log set handed_at = handed_at - interval '11 minutes 30 seconds', lease_until = now()`)
	renew()
	if got := f.seconds("lease_until", m.Key); got < 29 || got > 30 {
		t.Errorf("renewed for %d s, want the 30 s up to the cap", got)
	}
	f.expire()
	f.sweep()
	renew()
	if !h.Lease.Over(time.Now()) {
		t.Error("the lease stands though the row was taken over")
	}
	f.want(m.Key, "unknown: the lease ended")
	second := f.one()
	renew()
	if second.Lease.Over(time.Now()) {
		t.Error("the old hand's renewal hurt the new one")
	}
}
