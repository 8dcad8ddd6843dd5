package sendlog_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

func TestHandVerdicts(t *testing.T) {
	t.Parallel()
	const useless = "skipped: useless: "
	start := func(f fixture, booking, ago string) {
		f.exec(`update booking.bookings set starts_at = now() - $2::interval, ends_at = now() - $2::interval + interval '1 hour' where id = $1`, booking, ago)
	}
	tests := map[string]struct {
		kind   sendlog.Kind
		change func(f fixture, booking string)
		want   string
	}{
		"nothing changed":                    {sendlog.Confirm, func(fixture, string) {}, "handed"},
		"B100 stale reminder of a cancelled": {sendlog.Reminder, func(f fixture, b string) { f.cancel(b) }, "skipped: stale start"},
		"B101 stale reminder of a moved":     {sendlog.Reminder, func(f fixture, b string) { f.move(b) }, "skipped: stale start"},
		"superseded":                         {sendlog.Confirm, func(f fixture, b string) { f.move(b); f.move(b) }, "skipped: superseded by v3"},
		"superseded move":                    {sendlog.Move, func(f fixture, b string) { f.cancel(b) }, "skipped: superseded by v2"},
		"superseded cancel, for another":     {sendlog.Cancel, func(f fixture, b string) { f.cancel(b) }, "skipped: superseded by v2"},
		"item 9: a new note supersedes not":  {sendlog.Confirm, func(f fixture, b string) { f.exec(`update booking.bookings set version = 2 where id = $1`, b) }, "handed"},
		"item 9: nor does the host's mail": {sendlog.Confirm, func(f fixture, b string) {
			f.exec(`update booking.bookings set version = 2, told_host = 2 where id = $1`, b)
		}, "handed"},
		"a note keeps the reminder":           {sendlog.Reminder, func(f fixture, b string) { f.seed.Annotate(f.bookings[b], "a note") }, "handed"},
		"erased":                              {sendlog.Confirm, func(f fixture, b string) { f.seed.Erase(f.bookings[b]) }, "skipped: erased"},
		"confirm in the booking's time":       {sendlog.Confirm, func(f fixture, b string) { start(f, b, "30 minutes") }, "handed"},
		"confirm after the end":               {sendlog.Confirm, func(f fixture, b string) { start(f, b, "61 minutes") }, useless + "the booking has ended"},
		"cancel after the end":                {sendlog.Cancel, func(f fixture, b string) { start(f, b, "61 minutes") }, "handed"},
		"move after the end":                  {sendlog.Move, func(f fixture, b string) { start(f, b, "61 minutes") }, "handed"},
		"reminder after the start":            {sendlog.Reminder, func(f fixture, b string) { start(f, b, "1 minute") }, useless + "the booking has begun"},
		"older than the catch-up limit":       {sendlog.Confirm, func(f fixture, b string) { f.overdue("25 hours") }, "held: older than the catch-up limit"},
		"younger":                             {sendlog.Confirm, func(f fixture, b string) { f.overdue("23 hours") }, "handed"},
		"useless before older than the limit": {sendlog.Confirm, func(f fixture, b string) { f.overdue("25 hours"); start(f, b, "2 hours") }, useless + "the booking has ended"},
		"not due":                             {sendlog.Confirm, func(f fixture, b string) { f.overdue("-1 minute") }, "planned"},
		"paused": {sendlog.Confirm, func(f fixture, _ string) {
			f.exec(`update notifier.switches set paused = true where name = 'mail'`)
		}, "planned"},
		"accepted late": {sendlog.Confirm, func(f fixture, _ string) { f.exec(`update notifier.send_log set accepted_at = now()`) }, "sent"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, sendlog.DefaultTimes())
			booking := f.book()
			m := mail(booking, tt.kind, 1)
			f.plan(m)
			tt.change(f, booking)
			hands := f.hand(4)
			f.want(m.Key, tt.want)
			if inHand := tt.want == "handed"; len(hands) == 1 != inHand {
				t.Errorf("%d in hand", len(hands))
			}
			if n := f.number(`select count(*) from notifier.hands`); n != int64(len(hands)) {
				t.Errorf("%d hands counted of %d", n, len(hands))
			}
		})
	}
}

// overdue makes all rows past due by that much.
func (f fixture) overdue(by string) {
	f.t.Helper()
	f.exec(`update notifier.send_log set due_at = now() - $1::interval`, by)
}

func TestHandHostWithoutAddress(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	m := mail(f.book(), sendlog.Confirm, 1)
	m.Role = sendlog.Host
	f.plan(m)
	f.exec(`update booking.resources set host_address = null`)
	f.hand(1)
	f.want(m.Key, "skipped: useless: the resource has no host")
}

// Item 9 of issue 3: the mail goes to the address that is right at the hand.
func TestHandReadsTheContact(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	booking := f.book()
	f.plan(mail(booking, sendlog.Confirm, 1))
	f.exec(`update booking.contacts set address = 'new@customers.example', note = 'a new note' where booking = $1`, booking)
	if h := f.one(); h.To() != "new@customers.example" || h.Note != "a new note" || h.Customer != f.bookings[booking].Customer {
		t.Errorf("handed %+v", h)
	}
}

func TestHandMostUrgentFirst(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	plan := func(role sendlog.Role, kind sendlog.Kind, urgency int, due time.Duration) string {
		m := mail(f.book(), kind, 1)
		m.Role, m.Urgency, m.DueAt = role, urgency, time.Now().Add(due)
		return f.plan(m)[0]
	}
	backlog := plan(sendlog.Customer, sendlog.Confirm, sendlog.UrgentCustomer, -time.Hour)
	retry := plan(sendlog.Customer, sendlog.Confirm, sendlog.UrgentBacklog, -time.Minute)
	reminder := plan(sendlog.Customer, sendlog.Reminder, sendlog.UrgentReminder, -5*time.Minute)
	host := plan(sendlog.Host, sendlog.Confirm, sendlog.UrgentHost, -4*time.Minute)
	second := plan(sendlog.Customer, sendlog.Confirm, sendlog.UrgentCustomer, -2*time.Minute)
	first := plan(sendlog.Customer, sendlog.Confirm, sendlog.UrgentCustomer, -3*time.Minute)
	var got []string
	for range 6 {
		hands, more, err := f.Hand(f.ctx(), 1, 1)
		if err != nil || len(hands) != 1 || !more {
			t.Fatalf("%d in hand, more %t: %v", len(hands), more, err)
		}
		got = append(got, hands[0].Key)
	}
	if want := []string{first, second, host, reminder, retry, backlog}; !slices.Equal(got, want) {
		t.Errorf("handed in the order\n%q, want\n%q", got, want)
	}
	if hands, more, err := f.Hand(f.ctx(), 1, 1); err != nil || more || len(hands) > 0 {
		t.Errorf("%d in hand, more %t: %v", len(hands), more, err)
	}
}

func TestHandPacesOnlyTheBacklog(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	for range 6 {
		m := mail(f.book(), sendlog.Confirm, 1)
		m.DueAt = time.Now().Add(-time.Hour)
		f.plan(m, mail(f.book(), sendlog.Confirm, 1))
	}
	late := func(hands []sendlog.Hand) (n int) {
		for _, h := range hands {
			if h.Late {
				n++
			}
		}
		return n
	}
	hands, _, err := f.Hand(f.ctx(), 10, 0)
	if err != nil || len(hands) != 6 || late(hands) != 0 {
		t.Fatalf("%d in hand, %d late: %v", len(hands), late(hands), err)
	}
	hands, _, err = f.Hand(f.ctx(), 10, 2)
	if err != nil || len(hands) != 2 || late(hands) != 2 {
		t.Fatalf("%d in hand, %d late: %v", len(hands), late(hands), err)
	}
}

func TestHandOneDialogueASlot(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	booking := f.book()
	confirm, reminder := mail(booking, sendlog.Confirm, 1), mail(booking, sendlog.Reminder, 1)
	host := mail(booking, sendlog.Confirm, 1)
	host.Key, host.Role = host.Key+"-host", sendlog.Host
	f.plan(confirm, reminder, host)
	hands := f.hand(4)
	if len(hands) != 2 || hands[0].Role == hands[1].Role {
		t.Fatalf("in hand: %+v", hands)
	}
	if more := f.hand(4); len(more) != 0 {
		t.Fatalf("a slot twice in hand: %+v", more)
	}
	for _, h := range hands {
		f.write(h, sendlog.Accepted, "250 ok")
	}
	if got := f.one(); got.Role != sendlog.Customer {
		t.Errorf("in hand: %+v", got)
	}
}

// Item 8 of issue 3, and B4: the newest goes, what it supersedes does not.
func TestHandNewestOfASlot(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	booking := f.book()
	f.move(booking)
	f.cancel(booking)
	v1, v2, v3 := mail(booking, sendlog.Confirm, 1), mail(booking, sendlog.Move, 2), mail(booking, sendlog.Cancel, 3)
	f.plan(v1, v2, v3)
	h := f.one()
	if h.Key != v3.Key {
		t.Fatalf("handed %s", h.Key)
	}
	f.write(h, sendlog.Accepted, "250 ok")
	for more := true; more; {
		var hands []sendlog.Hand
		var err error
		if hands, more, err = f.Hand(f.ctx(), 4, 4); err != nil || len(hands) != 0 {
			t.Fatalf("handed %+v: %v", hands, err)
		}
	}
	f.want(v1.Key, "skipped: superseded by v3")
	f.want(v2.Key, "skipped: superseded by v3")
	f.want(v3.Key, "sent")
}

func TestHandMoveAsFirstNews(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		outcome sendlog.Outcome // of the confirmation
		want    bool
	}{
		"confirmation sent":            {sendlog.Accepted, false},
		"maybe sent":                   {sendlog.NoAnswer, false},
		"refused":                      {sendlog.Rejected, true},
		"tried again, then superseded": {sendlog.Again, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, sendlog.DefaultTimes())
			booking := f.book()
			f.plan(mail(booking, sendlog.Confirm, 1))
			f.write(f.one(), tt.outcome, "x")
			f.move(booking)
			f.plan(mail(booking, sendlog.Move, 2))
			f.passQuiet()
			move := f.handMove()
			if move.FirstNews != tt.want {
				t.Fatalf("first news: %t", move.FirstNews)
			}
			// The same words on the next try, and news after it.
			f.write(move, sendlog.NoAnswer, "x")
			f.passQuiet()
			if again := f.handMove(); again.FirstNews != tt.want {
				t.Errorf("first news on the second try: %t", again.FirstNews)
			} else {
				f.write(again, sendlog.Accepted, "250 ok")
			}
			f.move(booking)
			f.plan(mail(booking, sendlog.Move, 3))
			f.passQuiet()
			if f.handMove().FirstNews {
				t.Error("the second move is first news")
			}
		})
	}
}

// handMove hands until a move is in hand.
func (f fixture) handMove() sendlog.Hand {
	f.t.Helper()
	for range 3 {
		for _, h := range f.hand(4) {
			if h.Kind == sendlog.Move {
				return h
			}
		}
	}
	f.t.Fatal("no move in hand")
	return sendlog.Hand{}
}

// B22, B23: however many hand at once, each row is in one hand.
func TestHandManyAtOnce(t *testing.T) {
	t.Parallel()
	const senders, mails = 8, 400
	f := open(t, sendlog.DefaultTimes())
	var all []sendlog.Message
	for range mails / 4 { // two slots with two mails each
		booking := f.book()
		for _, role := range []sendlog.Role{sendlog.Customer, sendlog.Host} {
			confirm, reminder := mail(booking, sendlog.Confirm, 1), mail(booking, sendlog.Reminder, 1)
			confirm.Role, reminder.Role = role, role
			confirm.Key, reminder.Key = confirm.Key+"-"+string(role), reminder.Key+"-"+string(role)
			all = append(all, confirm, reminder)
		}
	}
	f.plan(all...)
	var mu sync.Mutex
	times := map[string]int{}
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			log := sendlog.New(f.db.Pool("slotwise_notifier"), sendlog.DefaultTimes())
			for {
				hands, _, err := log.Hand(f.ctx(), 5, 5)
				if err != nil {
					t.Error(err)
					return
				}
				var results []sendlog.Result
				mu.Lock()
				for _, h := range hands {
					times[h.Key]++
					results = append(results, sendlog.Result{Key: h.Key, Token: h.Token, Outcome: sendlog.Accepted})
				}
				done := len(times) == mails
				mu.Unlock()
				if _, err := log.Write(f.ctx(), results); err != nil {
					t.Error(err)
					return
				}
				if done {
					return
				}
			}
		})
	}
	wg.Wait()
	for key, n := range times {
		if n != 1 {
			t.Errorf("%s was in hand %d times", key, n)
		}
	}
	if n := f.number(`select count(*) from notifier.send_log where state = 'sent'`); n != mails {
		t.Errorf("%d sent", n)
	}
}
