package sendlog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

const notices = `select count(*) from notifier.send_log where kind = 'notice'`

// The host is told of each customer's mail that was refused or held, however that came about,
// once, and of nothing else.
func TestNotices(t *testing.T) {
	t.Parallel()
	end := func(outcome sendlog.Outcome) func(fixture, sendlog.Message) {
		return func(f fixture, m sendlog.Message) {
			f.plan(m)
			f.write(f.one(), outcome, "x")
		}
	}
	tests := map[string]struct {
		kind sendlog.Kind
		end  func(f fixture, m sendlog.Message)
		why  string // empty: nobody is told
	}{
		"refused":           {sendlog.Confirm, end(sendlog.Rejected), "x"},
		"refused reminder":  {sendlog.Reminder, end(sendlog.Rejected), "x"},
		"can't be rendered": {sendlog.Confirm, end(sendlog.Unsendable), "x"},
		"too many tries": {sendlog.Confirm, func(f fixture, m sendlog.Message) {
			f.plan(m)
			f.exec(`update notifier.send_log set attempts = 19`)
			f.write(f.one(), sendlog.Again, "451 later")
		}, "too many tries: 451 later"},
		"third mark, no answer": {sendlog.Confirm, func(f fixture, m sendlog.Message) {
			f.plan(m)
			f.exec(`update notifier.send_log set unknowns = 2`)
			f.write(f.one(), sendlog.NoAnswer, "EOF")
		}, "too often no answer after the final dot"},
		"third mark, lease over": {sendlog.Confirm, func(f fixture, m sendlog.Message) {
			f.plan(m)
			f.exec(`update notifier.send_log set unknowns = 2`)
			f.one()
			f.expire()
			f.sweep()
		}, "too often no answer after the final dot"},
		"older than the limit": {sendlog.Cancel, func(f fixture, m sendlog.Message) {
			m.DueAt = time.Now().Add(-25 * time.Hour)
			f.plan(m)
			f.hand(1)
		}, "older than the catch-up limit"},
		"suppressed": {sendlog.Confirm, func(f fixture, m sendlog.Message) {
			f.exec(`insert into notifier.suppressions (address, reason, key, since) select lower(address), '550 5.1.1 no', 'k', '2026-12-01 09:00:00Z' from booking.contacts`)
			f.plan(m)
			f.hand(1)
		}, "suppressed: 550 5.1.1 no since 2026-12-01 09:00:00Z"},
		"bounced": {sendlog.Confirm, func(f fixture, m sendlog.Message) {
			end(sendlog.Accepted)(f, m)
			f.exec(`update notifier.send_log set bounced_at = now(), reason = 'bounced: 550 5.1.1 no'`)
		}, "bounced: 550 5.1.1 no"},

		"sent":      {sendlog.Confirm, end(sendlog.Accepted), ""},
		"4xx":       {sendlog.Confirm, end(sendlog.Again), ""},
		"lost":      {sendlog.Confirm, end(sendlog.Lost), ""},
		"no answer": {sendlog.Confirm, end(sendlog.NoAnswer), ""},
		"discarded": {sendlog.Confirm, func(f fixture, m sendlog.Message) {
			f.plan(m)
			f.exec(`select notifier.discard('{"kind": "confirm"}', 'anna')`)
		}, ""},
		"superseded, and bounced": {sendlog.Confirm, func(f fixture, m sendlog.Message) {
			f.plan(m)
			f.exec(`update notifier.send_log set state = 'skipped', reason = 'superseded by v2', bounced_at = now()`)
		}, ""},
		"the host's own": {sendlog.Confirm, func(f fixture, m sendlog.Message) {
			m.Key, m.Role = m.Key+"-host", sendlog.Host
			end(sendlog.Rejected)(f, m)
		}, ""},
		"no host": {sendlog.Confirm, func(f fixture, m sendlog.Message) {
			f.hostless()
			end(sendlog.Rejected)(f, m)
		}, ""},
		"erased": {sendlog.Confirm, func(f fixture, m sendlog.Message) {
			f.plan(m)
			h := f.one()
			f.seed.Erase(f.bookings[m.Booking])
			f.write(h, sendlog.Rejected, "550")
		}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, sendlog.DefaultTimes())
			booking := f.book()
			if tt.kind == sendlog.Cancel {
				f.cancel(booking)
			}
			m := mail(booking, tt.kind, f.bookings[booking].Version)
			tt.end(f, m)
			if tt.why == "" {
				if n := f.number(notices); n != 0 {
					t.Errorf("%d notices", n)
				}
				return
			}
			h := f.one()
			if h.Key != id.Notice(m.Key) || h.Kind != sendlog.Notice || h.Role != sendlog.Host || h.To() != "host@rooms.example" {
				t.Errorf("in hand: %s, %s to %s", h.Key, h.Kind, h.To())
			}
			if h.Facts.About != m.Key || h.Facts.Why != tt.why || h.Facts.Zone != m.Facts.Zone || h.Address == "" {
				t.Errorf("facts %+v", h.Facts)
			}
			f.write(h, sendlog.Rejected, "550 the host is gone too") // tells nobody
			f.exec(`select notifier.retry($1, 'anna')`, `{"keys": ["`+m.Key+`"]}`)
			f.exec(`update notifier.send_log set state = 'held', reason = 'again' where key = $1`, m.Key)
			if n := f.number(notices); n != 1 {
				t.Errorf("%d notices, want 1", n)
			}
		})
	}
}

// What a notice would tell must still be true and of use when it comes to its hand.
func TestNoticesNotOfUse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		then, state string
	}{
		"the booking has ended": {`update booking.bookings set starts_at = now() - interval '2 hours', ends_at = now() - interval '1 hour'`, "skipped: useless: the booking has ended"},
		"accepted after all":    {`update notifier.send_log set state = 'sent', accepted_at = now() where kind = 'confirm'`, "skipped: useless: the mail was accepted after all"},
		"accepted and bounced":  {`update notifier.send_log set state = 'sent', accepted_at = now(), bounced_at = now() where kind = 'confirm'`, "handed"},
		"tried again":           {`update notifier.send_log set state = 'planned', due_at = now() + interval '1 hour' where kind = 'confirm'`, "handed"},
		"no host any more":      {`update booking.resources set host_address = null`, "skipped: useless: the resource has no host"},
		"person erased":         {`delete from booking.contacts`, "skipped: erased"},
		"a newer version":       {`update booking.bookings set version = 2, told_customer = 2, told_host = 2`, "handed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, sendlog.DefaultTimes())
			m := mail(f.book(), sendlog.Confirm, 1)
			f.plan(m)
			f.write(f.one(), sendlog.Rejected, "550 no")
			f.exec(tt.then)
			f.hand(1)
			f.want(id.Notice(m.Key), tt.state)
		})
	}
}

// A notice keeps to the quiet time of the host's slot.
func TestNoticesKeepQuiet(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	m := mail(f.book(), sendlog.Confirm, 1)
	host := m
	host.Key, host.Role = host.Key+"-host", sendlog.Host
	f.plan(host)
	f.write(f.one(), sendlog.NoAnswer, "EOF")
	f.plan(m)
	f.write(f.one(), sendlog.Rejected, "550 no")
	if got := f.seconds("due_at", id.Notice(m.Key)); got < 890 {
		t.Errorf("the notice is due in %d s, want 900", got)
	}
}

// A confirmation that bounced has told nobody anything: the move is worded as one.
func TestBouncedIsNoNews(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	f.hostless()
	booking := f.book()
	f.plan(mail(booking, sendlog.Confirm, 1))
	f.write(f.one(), sendlog.Accepted, "250 ok")
	f.exec(`update notifier.send_log set bounced_at = now(), reason = 'bounced: 550 5.2.2 full'`)
	f.move(booking)
	f.plan(mail(booking, sendlog.Move, 2))
	if h := f.one(); !h.FirstNews {
		t.Error("a move after a bounced confirmation is no first news")
	}
	if got := f.state(mail(booking, sendlog.Confirm, 1).Key); !strings.HasPrefix(got, "sent: bounced") {
		t.Errorf("the bounced mail is %q", got)
	}
}
