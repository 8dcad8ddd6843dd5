package operate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/ops/message"
)

func TestSuppressions(t *testing.T) {
	t.Parallel()
	s := serve(t)
	if page := must[message.Suppressions](s, "ops.get.suppressions", ""); page.Suppressions == nil || len(page.Suppressions) != 0 || page.Next != "" {
		t.Errorf("of nobody: %+v", page)
	}
	s.exec(`insert into notifier.suppressions (address, reason, key, since)
	        select 'a' || to_char(n, 'FM000') || '@gone.example', '550 5.1.1 no', 'email-' || n, '2026-12-01 09:00:00Z' from generate_series(1, 250) n`)
	one := must[message.Suppressions](s, "ops.get.suppressions", message.SuppressionQuery{Address: " A007@gone.EXAMPLE "})
	want := message.Suppression{Address: "a007@gone.example", Reason: "550 5.1.1 no", Key: "email-7", Since: time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)}
	if len(one.Suppressions) != 1 || one.Suppressions[0] != want || one.Next != "" {
		t.Errorf("one: %+v", one)
	}
	for limit, pages := range map[int]int{0: 3, 1: 250, 100: 3, 250: 1, 100_000: 1} {
		var all []string
		n, after := 0, ""
		for n == 0 || after != "" {
			page := must[message.Suppressions](s, "ops.get.suppressions", message.SuppressionQuery{After: after, Limit: limit})
			for _, found := range page.Suppressions {
				all = append(all, found.Address)
			}
			n++
			after = page.Next
		}
		if n != pages || len(all) != 250 || !slices.IsSorted(all) {
			t.Errorf("by %d: %d addresses on %d pages, want 250 on %d", limit, len(all), n, pages)
		}
	}
	// However long the words are, an answer is what NATS carries.
	s.exec(`update notifier.suppressions set reason = repeat('€', 1024)`)
	if page := must[message.Suppressions](s, "ops.get.suppressions", message.SuppressionQuery{Limit: 250}); page.Next == "" || len(page.Suppressions) < 10 {
		t.Errorf("%d addresses, next %q", len(page.Suppressions), page.Next)
	}
}

// A night on call, when an address had been right after all.
func TestProgramSuppressions(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.hostless()
	b, key := s.booked()
	s.exec(`delete from notifier.send_log where role = 'host'`)
	s.exec(`insert into notifier.suppressions (address, reason, key, since) values (lower($1), '550 5.1.1 no such user', $2, '2026-12-01 09:00:00Z')`, b.Address, key)
	if hands, _, err := s.log.Hand(t.Context(), 4, 4); err != nil || len(hands) != 0 {
		t.Fatalf("%d in hand: %v", len(hands), err)
	}
	s.says(s.slotwise(0, "trace", b.ID), "refused, not tried: suppressed: 550 5.1.1 no such user since 2026-12-01 09:00:00Z")
	line := fmt.Sprintf("%s  since 2026-12-01 09:00:00Z  %s  550 5.1.1 no such user", strings.ToLower(b.Address), key)
	s.says(s.slotwise(0, "suppressions", "list"), line)
	s.says(s.slotwise(0, "suppressions", "list", b.Address), line)
	s.says(s.slotwise(0, "suppressions", "list", "somebody@else.example"), "no such suppressions")
	s.says(s.slotwise(2, "suppressions", "list", "a@b.example", "c@d.example"), "one address at a time")
	s.says(s.slotwise(3, "suppressions", "lift", "somebody@else.example"), "not suppressed")
	s.says(s.slotwise(0, "suppressions", "lift", b.Address), "mails go to that address again")
	s.says(s.slotwise(0, "messages", "retry", "--reason", "suppressed"), "1 message planned again")
	if hands, _, err := s.log.Hand(t.Context(), 4, 4); err != nil || len(hands) != 1 {
		t.Errorf("%d in hand: %v", len(hands), err)
	}
	text := s.slotwise(0, "trace", b.ID)
	s.says(text, "lift", `{"keys":["`+key+`"]}`)
	if strings.Contains(strings.ToLower(text), strings.ToLower(b.Address)) {
		t.Errorf("the trace names the address:\n%s", text)
	}
}
