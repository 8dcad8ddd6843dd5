package send_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/mailtest"
)

// B74: a server that says of an address that there is no such mailbox is not asked for it
// again, and every mail that does not go stands refused with the server's code and words.
func TestB74GoneAddresses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault      mailtest.Fault
		suppressed int64
	}{
		"no such mailbox":          {mailtest.Fault{Phase: mailtest.RCPT, Reply: "550 5.1.1 no such mailbox"}, 1},
		"null MX":                  {mailtest.Fault{Phase: mailtest.RCPT, Reply: "550 5.1.10 takes no mail"}, 1},
		"moved":                    {mailtest.Fault{Phase: mailtest.RCPT, Reply: "551 5.1.6 moved"}, 1},
		"policy":                   {mailtest.Fault{Phase: mailtest.RCPT, Reply: "550 5.7.1 not from you"}, 0},
		"no enhanced code":         {mailtest.Fault{Phase: mailtest.RCPT, Reply: "550 no such mailbox"}, 0},
		"not at RCPT":              {mailtest.Fault{Phase: mailtest.DATA, Reply: "550 5.1.1 no such mailbox"}, 0},
		"450 that is final":        {mailtest.Fault{Phase: mailtest.RCPT, Reply: "450 5.1.1 no such mailbox"}, 0},
		"550 that is no last word": {mailtest.Fault{Phase: mailtest.RCPT, Reply: "550 5.1.1 try later"}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, quick(), mailtest.Options{})
			s.hostless()
			s.settings.Temporary, s.settings.Final = regexp.MustCompile("try later"), regexp.MustCompile("no such")
			s.mail.Script(tt.fault)
			s.start()
			b := s.book()
			confirm, reminder := message(b, sendlog.Confirm), message(b, sendlog.Reminder)
			s.plan(confirm)
			if name == "550 that is no last word" {
				s.await(confirm.Key, "planned: "+tt.fault.Reply)
			} else {
				s.await(confirm.Key, "refused: "+tt.fault.Reply)
			}
			if n := s.number(`select count(*) from notifier.suppressions where address = $1 and reason = $2`, strings.ToLower(b.Address), tt.fault.Reply); n != tt.suppressed {
				t.Fatalf("%d suppressions, want %d", n, tt.suppressed)
			}
			if tt.suppressed == 0 {
				return
			}
			s.mail.Script()
			s.plan(reminder)
			s.await(reminder.Key, "refused: suppressed: "+tt.fault.Reply+" since 20.*Z")
			if c := s.mail.Counts(); c.RCPT != 1 {
				t.Errorf("the server was asked %d times", c.RCPT)
			}
		})
	}
}

// The host gets a notice at once, with all that it needs.
func TestNoticeIsSent(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	s.mail.Script(mailtest.Fault{Phase: mailtest.RCPT, To: "@customers.example", Reply: "550 5.1.1 no such mailbox"})
	s.start()
	k := s.confirm()
	s.await(k, "refused: .*")
	s.await("notice-"+k, "sent")
	if m := s.mail.Messages(); len(m) != 1 || m[0].To[0] != "host@rooms.example" || key(m[0]) != "notice-"+k {
		t.Errorf("mails %+v", m)
	}
}
