package sendlog_test

import (
	"testing"

	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

// The owner of an endpoint is told at the address that the endpoint has then, unless it is suppressed
// or the endpoint is deleted.
func TestB119OwnersNotice(t *testing.T) {
	t.Parallel()
	const key = "notice-webhook-x-we_a-3"
	notice := sendlog.Message{
		Key: key, Channel: sendlog.Email, Kind: sendlog.Notice, Role: sendlog.Host, Endpoint: "we_a", Urgency: sendlog.UrgentReminder,
		Facts: sendlog.Facts{Why: "it has answered 410 Gone"},
	}
	for name, tt := range map[string]struct{ then, state string }{
		"told":        {`update notifier.endpoints set owner = 'New@teams.example'`, "handed"},
		"suppressed":  {`insert into notifier.suppressions (address, reason, key, since) values ('owner@teams.example', '550 no', 'k', '2026-12-01 09:00Z')`, "refused: suppressed: 550 no since 2026-12-01 09:00:00Z"},
		"deleted":     {`select notifier.delete_endpoint('we_a', 'anna')`, "skipped: useless: the endpoint is deleted"},
		"not the key": {`delete from notifier.endpoints`, "skipped: useless: the endpoint is deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, sendlog.DefaultTimes())
			f.exec(`insert into notifier.endpoints (id, url, owner, description) values ('we_a', 'https://hooks.example/x', 'Owner@teams.example', 'billing')`)
			f.plan(notice)
			f.exec(`update notifier.send_log set due_at = now()`)
			f.exec(tt.then)
			hands := f.hand(4)
			f.want(key, tt.state)
			if tt.state != "handed" {
				return
			}
			h := hands[0]
			if h.To() != "New@teams.example" || h.Endpoint != "we_a" || h.EndpointURL != "https://hooks.example/x" || h.EndpointAbout != "billing" || h.Facts.Why != notice.Facts.Why {
				t.Errorf("in hand: %+v", h)
			}
			f.write(h, sendlog.NoAnswer, "EOF") // a mail like any other
			if n := f.seconds("due_at", key); n < 890 {
				t.Errorf("due in %d s", n)
			}
		})
	}
}
