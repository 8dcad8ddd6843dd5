package send_test

import (
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/mailtest"
	"github.com/slotwise/slotwise/testkit/seed"
)

// Items 2 and 5 of issue 3, B22, B23: the same mails planned by many, sent by several: one each.
func TestB23ManyPlanManySend(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	s.start()
	s.start()
	var all []sendlog.Message
	var keys []string
	for range 100 {
		m := message(s.book(), sendlog.Confirm)
		all, keys = append(all, m), append(keys, m.Key)
	}
	var planning sync.WaitGroup
	for range 4 {
		planning.Go(func() {
			for i := range all { // one by one, against the others' batches
				if _, err := s.log.Plan(t.Context(), all[i:min(i+3, len(all))]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	planning.Wait()
	for _, k := range keys {
		s.await(k, "sent")
	}
	s.plan(all...)
	s.exactlyOnce(keys...)
	if n := s.number(`select count(*) from notifier.hands`); n != 100 {
		t.Errorf("%d hands", n)
	}
}

// B4: confirmation and cancellation close together, two senders: at most one mail that is
// true, never a confirmation after a cancellation.
func TestB4ConfirmAndCancelWithin50ms(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	s.start()
	s.start()
	const pairs = 40
	var cancelled []seed.Booking
	for i := range pairs {
		b := s.book()
		s.plan(message(b, sendlog.Confirm))
		<-time.After(time.Duration(i) * time.Millisecond)
		b = s.seed.Cancel(b)
		s.plan(message(b, sendlog.Cancel))
		cancelled = append(cancelled, b)
	}
	for _, b := range cancelled {
		s.await(message(b, sendlog.Cancel).Key, "sent")
	}
	for b, kinds := range s.kinds() {
		if last := kinds[len(kinds)-1]; last != sendlog.Cancel || len(kinds) > 2 {
			t.Errorf("booking %s got %v", b, kinds)
		}
	}
}

// kinds are the kinds of mails that each booking got, in the order of their acceptance.
func (s *stage) kinds() map[string][]sendlog.Kind {
	kinds := map[string][]sendlog.Kind{}
	for _, m := range s.mail.Messages() {
		booking := bookingOf(key(m))
		kinds[booking] = append(kinds[booking], sendlog.Kind(m.Subject))
	}
	return kinds
}

// Item 8 of issue 3: confirm, move and cancel, each before the last one's mail went.
func TestItem8MoveAndCancelBeforeTheMail(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	s.mail.Stop()
	s.start()
	v1 := s.book()
	s.plan(message(v1, sendlog.Confirm))
	v2 := s.seed.Move(v1, v1.Start.Add(time.Hour))
	s.plan(message(v2, sendlog.Move))
	v3 := s.seed.Cancel(v2)
	s.plan(message(v3, sendlog.Cancel))
	s.mail.Start()
	s.await(message(v3, sendlog.Cancel).Key, "sent")
	s.await(message(v1, sendlog.Confirm).Key, "skipped: superseded by v3")
	s.await(message(v2, sendlog.Move).Key, "skipped: superseded by v3")
	s.exactlyOnce(message(v3, sendlog.Cancel).Key)
}

// B100: once a cancellation has been answered no reminder begins; one whose MAIL FROM came
// before it is the window that can't be closed.
func TestB100CancelledBeforeItsReminder(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	b := s.book()
	reminder := message(b, sendlog.Reminder)
	s.plan(reminder)
	s.seed.Cancel(b)
	s.start()
	s.await(reminder.Key, "skipped: stale start")
	if c := s.mail.Counts(); c.MAIL != 0 {
		t.Errorf("%+v", c)
	}
}

// A mail goes as soon as it is due, without waiting for the poll.
func TestWakes(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Poll = time.Hour
	s := newStage(t, times, mailtest.Options{})
	s.start()
	s.await(s.confirm(), "sent") // planned by this process
	later := message(s.book(), sendlog.Confirm)
	later.DueAt = time.Now().Add(500 * time.Millisecond)
	s.plan(later)
	s.await(later.Key, "sent") // when it is due
	if at := s.mail.Messages()[1].At; at.Before(later.DueAt.Add(-50 * time.Millisecond)) {
		t.Errorf("it went %s before it was due", later.DueAt.Sub(at))
	}
}

// A mail that another process planned goes at the next poll.
func TestPolls(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	s.start()
	m := message(s.book(), sendlog.Confirm)
	if _, err := sendlog.New(s.db.Pool("slotwise_notifier"), s.times).Plan(t.Context(), []sendlog.Message{m}); err != nil {
		t.Fatal(err)
	}
	s.await(m.Key, "sent")
}

// A pause reaches every sender, and what was planned meanwhile goes after it.
func TestPause(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	s.exec(`update notifier.switches set paused = true where name = 'mail'`)
	s.start()
	s.start()
	k := s.confirm()
	<-time.After(3 * s.times.Poll) // nothing is to happen
	s.await(k, "planned")
	if c := s.mail.Counts(); c.Conns != 0 {
		t.Errorf("%+v", c)
	}
	s.exec(`update notifier.switches set paused = false where name = 'mail'`)
	s.await(k, "sent")
}

// 10 000 reminders are due at once; confirmations that are planned meanwhile do not queue behind
// them. Between the planning of one and its hand nobody hands more reminders than there are
// connections, but for one claim that had begun before.
func TestFreshBeforeTenThousandReminders(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{NoOp: true})
	s.exec(`
		with b as (
		    insert into booking.bookings (id, resource, status, starts_at, ends_at, seats, version, start_version, told_customer, told_host, created_at, changed_at)
		    select gen_random_uuid(), 'room-7', 'confirmed', now() + interval '1 day', now() + interval '25 hours', 1, 1, 1, 1, 1, now(), now()
		    from generate_series(1, 10000)
		    returning id),
		c as (insert into booking.customers (id, address) select id, id || '@customers.example' from b returning id),
		k as (insert into booking.contacts (booking, customer, name, address, locale, note) select id, c.id, 'Ada', id || '@customers.example', 'en', '' from c)
		insert into notifier.send_log (key, channel, booking, kind, version, start_version, role, urgency, state, due_at, payload)
		select 'reminder-' || id || '-v1', 'email', id, 'reminder', 1, 1, 'customer', 2, 'planned', now(), '{"status": "confirmed", "resource": "room-7"}'
		from b`)
	s.start()
	s.mail.WaitCounts("reminders go out", soon, func(c mailtest.Counts) bool { return c.Accepted > 100 })
	var fresh []string
	for range 20 {
		k := s.confirm()
		s.await(k, "sent")
		fresh = append(fresh, k)
	}
	if left := s.number(`select count(*) from notifier.send_log where kind = 'reminder' and state = 'planned'`); left == 0 {
		t.Fatal("all reminders have gone before the last confirmation: nothing was shown")
	}
	overtaken := s.number(`
		select max(n) from (
		    select count(h.token) as n
		    from notifier.send_log c
		    left join notifier.hands h on h.key like 'reminder-%' and h.handed_at > c.created_at and h.handed_at < c.handed_at
		    where c.key = any ($1)
		    group by c.key) each`, fresh)
	if most := int64(2 * s.settings.Connections); overtaken > most {
		t.Errorf("%d reminders were handed before a fresh confirmation, want at most %d", overtaken, most)
	}
}

// After an outage the backlog goes at SEND_RATE, and a fresh mail does not wait for it.
func TestBacklogIsPaced(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	s.settings.Rate = 20
	var backlog []sendlog.Message
	for range 120 {
		m := message(s.book(), sendlog.Confirm)
		m.DueAt = time.Now().Add(-time.Hour)
		backlog = append(backlog, m)
	}
	s.plan(backlog...)
	start := time.Now()
	s.start()
	s.mail.Wait(25, soon) // a second's worth at once, then 20 a second
	fresh := s.confirm()
	s.await(fresh, "sent")
	before := 0
	for _, m := range s.mail.Messages() {
		if key(m) == fresh {
			break
		}
		before++
	}
	if before > 100 {
		t.Errorf("the fresh mail went after %d others", before)
	}
	s.mail.Wait(121, soon)
	if took := time.Since(start); took < 4900*time.Millisecond {
		t.Errorf("120 mails went in %s, at 20 a second after the first 20", took)
	}
}

// B141: SIGTERM while a mail is being taken: it is finished, and so is its row.
func TestB141StopWhileSending(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	s.mail.Script(mailtest.Fault{Phase: mailtest.Dot, Delay: 300 * time.Millisecond})
	r := s.start()
	k := s.confirm()
	s.mail.WaitCounts("dot", soon, func(c mailtest.Counts) bool { return c.Dots == 1 })
	r.stop()
	later := s.confirm()
	<-r.done
	s.await(k, "sent")
	s.await(later, "planned")
	s.exactlyOnce(k)
}

// What is in hand when DRAIN is over: before the dot it is put back, after it nobody knows.
func TestStopWhenDrainIsOver(t *testing.T) {
	t.Parallel()
	for phase, want := range map[mailtest.Phase]string{mailtest.RCPT: "planned: .*", mailtest.Dot: "unknown: .*"} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, quick(), mailtest.Options{})
			s.settings.Drain = 50 * time.Millisecond
			s.mail.Script(mailtest.Fault{Phase: phase, End: mailtest.Silent, Untaken: true})
			r := s.start()
			k := s.confirm()
			s.mail.WaitCounts("command", soon, func(c mailtest.Counts) bool { return c.RCPT == 1 && (phase == mailtest.RCPT || c.Dots == 1) })
			r.end()
			s.await(k, want)
		})
	}
}

// PostgreSQL goes away while a mail is being taken. After the dot the result waits for it;
// before the dot the mail is given up once the lease is over.
func TestPostgresAwayWhileSending(t *testing.T) {
	t.Parallel()
	for name, phase := range map[string]mailtest.Phase{"before the dot": mailtest.DATA, "after the dot": mailtest.Dot} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			times := quick()
			times.Lease, times.Renew = time.Second, 250*time.Millisecond
			s := newStage(t, times, mailtest.Options{})
			release := make(chan struct{})
			s.mail.Script(mailtest.Fault{Phase: phase, Times: 1, Until: release})
			way := s.gated()
			s.settings.Connections = 1
			s.start()
			m := message(s.book(), sendlog.Confirm)
			s.plan(m)
			s.mail.WaitCounts("command", soon, func(c mailtest.Counts) bool { return c.DATA == 1 && (phase == mailtest.DATA || c.Dots == 1) })
			way.shut()
			<-time.After(2 * times.Lease)
			close(release)
			if phase == mailtest.Dot {
				s.mail.Wait(1, soon)
			} else {
				s.mail.WaitCounts("dropped connection", soon, func(c mailtest.Counts) bool { return c.Open == 0 })
			}
			way.open()
			s.await(m.Key, "sent")
			if n := s.copies()[m.Key]; n != 1 && phase == mailtest.DATA {
				t.Errorf("%d copies, though the first dot was never written", n)
			}
			s.copiesAreMarked() // it may be taken over before its result is written
		})
	}
}

// An answer to a result's commit that gets lost changes nothing: see TestResultsTwice. Here
// PostgreSQL is away for a while under load: every mail goes, once, and marks count the rest.
func TestPostgresAwayUnderLoad(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Lease, times.Renew = 500*time.Millisecond, 150*time.Millisecond
	s := newStage(t, times, mailtest.Options{})
	s.mail.Script(mailtest.Fault{Phase: mailtest.Dot, Late: 3 * time.Millisecond})
	var all []sendlog.Message
	for range 300 {
		all = append(all, message(s.book(), sendlog.Confirm))
	}
	s.plan(all...)
	way := s.gated()
	s.start()
	for i := range 4 {
		s.mail.Wait(50*(i+1), soon)
		way.shut()
		<-time.After(200 * time.Millisecond)
		way.open()
	}
	for _, m := range all {
		s.await(m.Key, "sent")
	}
	s.copiesAreMarked()
}

// copiesAreMarked: of the hands of one row whose mail was accepted, at most one is not marked.
func (s *stage) copiesAreMarked() {
	s.t.Helper()
	marked := s.markedHands()
	unmarked, seen := map[string]int{}, map[string]bool{}
	for _, m := range s.mail.Messages() {
		name := key(m) + " " + m.Header.Get("Slotwise-Hand")
		if seen[name] {
			s.t.Errorf("one hand wrote two dots: %s", name)
		}
		seen[name] = true
		if !marked[name] {
			unmarked[key(m)]++
		}
	}
	for key, n := range unmarked {
		if n > 1 {
			s.t.Errorf("%s: %d copies of hands that are not marked", key, n)
		}
	}
}

// markedHands are the hands after which nobody knew, as "key token".
func (s *stage) markedHands() map[string]bool {
	s.t.Helper()
	rows, err := s.db.Admin.Query(s.t.Context(), `select key || ' ' || token from notifier.hands where unknown`)
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	marked := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			s.t.Fatal(err)
		}
		marked[name] = true
	}
	if rows.Err() != nil {
		s.t.Fatal(rows.Err())
	}
	return marked
}
