package send_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/mailtest"
)

// Each way in which a dialogue can end, over a real socket: what becomes of the row, how often
// the mail was accepted in the end, and how many marks there are.
func TestDialogueFaults(t *testing.T) {
	t.Parallel()
	short := func(t *sendlog.Times) { // not longer than a test can wait
		t.Dot, t.Answer, t.Cap, t.Quiet = time.Second, time.Second, 2500*time.Millisecond, 3*time.Second
		t.Lease, t.Renew = 2*time.Second, 500*time.Millisecond
	}
	tests := map[string]struct {
		fault    mailtest.Fault
		times    func(*sendlog.Times)
		end      string // of the row
		copies   int
		marks    int64
		attempts int64
		hands    int64
	}{
		"B65 no answer to the dot, taken":     {fault: mailtest.Fault{Phase: mailtest.Dot, Times: 1, End: mailtest.Silent}, times: short, end: "sent", copies: 2, marks: 1, hands: 2},
		"B65 no answer to the dot, not taken": {fault: mailtest.Fault{Phase: mailtest.Dot, Times: 1, End: mailtest.Silent, Untaken: true}, times: short, end: "sent", copies: 1, marks: 1, hands: 2},
		"closed at the dot":                   {fault: mailtest.Fault{Phase: mailtest.Dot, Times: 1, End: mailtest.Closed}, times: short, end: "sent", copies: 2, marks: 1, hands: 2},
		"B66 554 to the dot":                  {fault: mailtest.Fault{Phase: mailtest.Dot, Reply: "554 5.7.1 rejected: ada"}, end: "refused: 554 5.7.1 rejected: ada", hands: 1},
		"B67 250, then closed":                {fault: mailtest.Fault{Phase: mailtest.Dot, End: mailtest.Hangup}, end: "sent", copies: 1, hands: 1},
		"451 to the dot":                      {fault: mailtest.Fault{Phase: mailtest.Dot, Times: 1, Reply: "451 4.3.0 later"}, end: "sent", copies: 1, attempts: 1, hands: 2},
		"421 to the dot, then closed":         {fault: mailtest.Fault{Phase: mailtest.Dot, Times: 1, Reply: "421 4.3.2 bye", End: mailtest.Hangup}, end: "sent", copies: 1, attempts: 1, hands: 2},
		"garbage to the dot":                  {fault: mailtest.Fault{Phase: mailtest.Dot, Times: 1, Reply: "hello", Untaken: true}, times: short, end: "sent", copies: 1, marks: 1, hands: 2},
		"slow after the dot":                  {fault: mailtest.Fault{Phase: mailtest.Dot, Late: 250 * time.Millisecond}, times: short, end: "sent", copies: 1, hands: 1},
		"451 to DATA":                         {fault: mailtest.Fault{Phase: mailtest.DATA, Times: 1, Reply: "451 4.3.0 later"}, end: "sent", copies: 1, attempts: 1, hands: 2},
		"554 to DATA":                         {fault: mailtest.Fault{Phase: mailtest.DATA, Reply: "554 5.5.1 no"}, end: "refused: 554 5.5.1 no", hands: 1},
		"closed at DATA":                      {fault: mailtest.Fault{Phase: mailtest.DATA, Times: 1, End: mailtest.Closed}, end: "sent", copies: 1, hands: 2},
		"silent at DATA":                      {fault: mailtest.Fault{Phase: mailtest.DATA, Times: 1, End: mailtest.Silent}, times: short, end: "sent", copies: 1, hands: 2},
		"450 to RCPT":                         {fault: mailtest.Fault{Phase: mailtest.RCPT, Times: 1, Reply: "450 4.2.1 later"}, end: "sent", copies: 1, attempts: 1, hands: 2},
		"550 to RCPT":                         {fault: mailtest.Fault{Phase: mailtest.RCPT, Reply: "550 5.1.1 <ada@x>?"}, end: "refused: 550 5.1.1 <ada@x>[?]", hands: 1},
		"530 to RCPT":                         {fault: mailtest.Fault{Phase: mailtest.RCPT, Times: 1, Reply: "530 5.7.0 log in"}, end: "sent", copies: 1, hands: 2},
		"closed at RCPT":                      {fault: mailtest.Fault{Phase: mailtest.RCPT, Times: 1, End: mailtest.Closed}, end: "sent", copies: 1, hands: 2},
		"silent at RCPT":                      {fault: mailtest.Fault{Phase: mailtest.RCPT, Times: 1, End: mailtest.Silent}, times: short, end: "sent", copies: 1, hands: 2},
		"421 to MAIL":                         {fault: mailtest.Fault{Phase: mailtest.MAIL, Times: 1, Reply: "421 4.3.2 bye", End: mailtest.Hangup}, end: "sent", copies: 1, hands: 2},
		"closed at MAIL":                      {fault: mailtest.Fault{Phase: mailtest.MAIL, Times: 1, End: mailtest.Closed}, end: "sent", copies: 1, hands: 2},
		"451 to MAIL":                         {fault: mailtest.Fault{Phase: mailtest.MAIL, Times: 1, Reply: "451 4.3.0 later"}, end: "sent", copies: 1, hands: 2},
		"550 to MAIL":                         {fault: mailtest.Fault{Phase: mailtest.MAIL, Times: 1, Reply: "550 5.7.1 you?"}, end: "sent", copies: 1, hands: 2},
		"552 to MAIL":                         {fault: mailtest.Fault{Phase: mailtest.MAIL, Reply: "552 5.3.4 too large"}, end: "refused: 552 5.3.4 too large", hands: 1},
		"multi-line":                          {fault: mailtest.Fault{Phase: mailtest.RCPT, Reply: "550-5.1.1 no such\r\n550 5.1.1 mailbox"}, end: "refused: 550 5.1.1 no such 5.1.1 mailbox", hands: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			times := quick()
			if tt.times != nil {
				tt.times(&times)
			}
			s := newStage(t, times, mailtest.Options{})
			s.hostless()
			s.mail.Script(tt.fault)
			r := s.start()
			k := s.confirm()
			s.await(k, tt.end)
			r.end()
			if got := s.copies()[k]; got != tt.copies {
				t.Errorf("%d copies, want %d", got, tt.copies)
			}
			for column, want := range map[string]int64{"unknowns": tt.marks, "attempts": tt.attempts} {
				if got := s.number(`select `+column+` from notifier.send_log where key = $1`, k); got != want {
					t.Errorf("%s = %d, want %d", column, got, want)
				}
			}
			if got := s.number(`select count(*) from notifier.hands where ended_at is not null`); got != tt.hands {
				t.Errorf("%d hands, want %d", got, tt.hands)
			}
			if got := r.counter(t, "slotwise_unknown_marks_total"); got != float64(tt.marks) {
				t.Errorf("%v marks counted", got)
			}
			s.sameMessageID()
		})
	}
}

// sameMessageID: copies of one mail have one Message-ID, and each its own hand.
func (s *stage) sameMessageID() {
	s.t.Helper()
	hands := map[string]bool{}
	for _, m := range s.mail.Messages() {
		hand := m.Header.Get("Slotwise-Hand")
		if hands[hand] {
			s.t.Errorf("hand %s has written two dots", hand)
		}
		hands[hand] = true
	}
}

// A server that needs long after the dot, while the lease is renewed: one copy and no mark.
func TestDialogueOutlivesItsLease(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Lease, times.Renew, times.Sweep = time.Second, 250*time.Millisecond, 50*time.Millisecond
	s := newStage(t, times, mailtest.Options{})
	s.mail.Script(mailtest.Fault{Phase: mailtest.Dot, Delay: 3 * time.Second})
	s.start()
	s.start()
	k := s.confirm()
	s.await(k, "sent")
	s.exactlyOnce(k)
	if n := s.number(`select unknowns from notifier.send_log`); n != 0 {
		t.Errorf("%d marks", n)
	}
}

func TestB73DirtyConnection(t *testing.T) {
	t.Parallel()
	for _, p := range []mailtest.Phase{mailtest.RCPT, mailtest.DATA} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, quick(), mailtest.Options{})
			s.hostless()
			s.settings.Connections = 1
			s.mail.Script(mailtest.Fault{Phase: p, Times: 1, Reply: "550 5.1.1 no"})
			s.start()
			refused, sent := s.confirm(), s.confirm()
			s.await(refused, "refused: .*|sent")
			s.await(sent, "refused: .*|sent")
			if c := s.mail.Counts(); c.Conns != 1 || c.RSET != 1 || c.Accepted != 1 {
				t.Errorf("%+v: want both mails on one connection", c)
			}
		})
	}
}

func TestB85NoMailToSend(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	s.hostless()
	s.render = func(h sendlog.Hand) ([]byte, error) {
		if h.Kind == sendlog.Confirm {
			return nil, errors.New("unknown time zone")
		}
		return render(h)
	}
	s.start()
	held := s.confirm()
	s.await(held, "held: can't be rendered: unknown time zone")
	reminder := message(s.book(), sendlog.Reminder)
	s.plan(reminder)
	s.await(reminder.Key, "sent")
	s.exactlyOnce(reminder.Key)
}

func TestB60AddressThatBreaksTheDialogue(t *testing.T) {
	t.Parallel()
	for name, addresses := range map[string][2]string{
		"recipient": {"bookings@slotwise.example", "a@b.example>\r\nDATA\r\nx"},
		"sender":    {"bookings@slotwise.example>\r\nRCPT TO:<x@y.example", "a@b.example"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, quick(), mailtest.Options{})
			s.hostless() // a host would be told by mail that this one is held
			s.from = func(sendlog.Hand) string { return addresses[0] }
			m := message(s.book(), sendlog.Confirm)
			s.exec(`update booking.contacts set address = $1`, addresses[1])
			s.plan(m)
			s.start()
			s.await(m.Key, "held: an address can't be carried by SMTP")
			if c := s.mail.Counts(); c.MAIL != 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// The server's words are kept without the recipient's address.
func TestRefusalNamesNobody(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	b := s.book()
	s.mail.Script(mailtest.Fault{Phase: mailtest.RCPT, To: b.Address, Reply: "550 5.1.1 <" + strings.ToUpper(b.Address) + "> unknown"})
	m := message(b, sendlog.Confirm)
	s.plan(m)
	s.start()
	s.await(m.Key, regexp.QuoteMeta("refused: 550 5.1.1 <(address)> unknown"))
	if n := s.number(`select count(*) from notifier.hands where answer ilike '%' || $1 || '%'`, b.Address); n != 0 {
		t.Error("the hand names the person")
	}
}

func TestReturnPathIsTheRows(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	s.from = func(h sendlog.Hand) string { return "b+" + h.Key[len(h.Key)-10:] + "@slotwise.example" }
	s.mail.Script(mailtest.Fault{Phase: mailtest.Dot, Times: 1, Reply: "451 later"})
	s.start()
	k := s.confirm()
	s.await(k, "sent")
	if got, want := s.mail.Messages()[0].From, "b+"+k[len(k)-10:]+"@slotwise.example"; got != want {
		t.Errorf("from %s, want %s", got, want)
	}
}

// Bodies of every size arrive as they were rendered, dots and all.
func TestBodyArrivesAsRendered(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	bodies := map[string]string{}
	for i, size := range []int{0, 1, 50, 51, 52, 53, 54, 2000} {
		b := s.book()
		m := message(b, sendlog.Confirm)
		text := strings.Repeat(fmt.Sprintf("..line %d of many with a dot at its start\r\n.\r\n", i), size)
		bodies[m.Key] = "\r\n" + text
		s.plan(m)
	}
	s.render = func(h sendlog.Hand) ([]byte, error) {
		return []byte("Message-ID: <" + h.Key + "@x>\r\nSlotwise-Hand: " + h.Token + "\r\n" + bodies[h.Key]), nil
	}
	s.start()
	for _, m := range s.mail.Wait(len(bodies), soon) {
		_, body, _ := strings.Cut(string(m.Raw), "\r\n\r\n")
		if want := strings.TrimPrefix(bodies[key(m)], "\r\n"); body != want {
			t.Errorf("%d bytes arrived, want %d", len(body), len(want))
		}
	}
}

// B75: connections that send at once do not mix their mails.
func TestB75ManyAtOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	s.settings.Connections = 10
	s.start()
	var all []sendlog.Message
	for range 100 {
		all = append(all, message(s.book(), sendlog.Confirm))
	}
	s.plan(all...)
	for _, m := range s.mail.Wait(100, soon) {
		booking := strings.TrimSuffix(strings.TrimPrefix(key(m), "email-confirm-"), "-v1")
		if !slices.Equal(m.To, []string{"ada-" + booking + "@customers.example"}) || !strings.Contains(string(m.Raw), "\r\n."+booking+"\r\n") {
			t.Errorf("%s went to %q:\n%s", key(m), m.To, m.Raw)
		}
	}
}
