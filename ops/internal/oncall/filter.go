package oncall

import (
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/slotwise/slotwise/pkg/ops/message"
)

// filterFlags defines the flags that fill f.
func filterFlags(f *message.Filter, now time.Time) func(*flag.FlagSet) {
	return func(flags *flag.FlagSet) {
		flags.Func("state", "only these `STATES`: planned, handed, sent, refused, unknown, held, skipped; separated by commas", func(s string) error {
			f.States = append(f.States, strings.Split(s, ",")...)
			return nil
		})
		flags.StringVar(&f.Reason, "reason", "", "only with this `TEXT` in the reason, in any case; % stands for any characters")
		flags.StringVar(&f.Kind, "kind", "", "only this `KIND`: confirm, move, cancel, reminder, notice, webhook, event")
		flags.StringVar(&f.Channel, "channel", "", "only this `CHANNEL`: email, webhook, event")
		flags.StringVar(&f.Role, "role", "", "only to this `ROLE`: customer, host")
		flags.StringVar(&f.Endpoint, "endpoint", "", "only webhooks for this `ENDPOINT`")
		flags.StringVar(&f.Booking, "booking", "", "only about this `BOOKING`")
		flags.Func("since", "only planned since this `TIME`, such as 2h (ago), 2026-12-01 or 2026-12-01T09:30:00Z", instant(&f.Since, now))
		flags.Func("until", "only planned before this `TIME`", instant(&f.Until, now))
		flags.IntVar(&f.Limit, "limit", 0, "only the oldest `N`")
	}
}

// layouts are the forms of an instant; without an offset it is UTC.
var layouts = []string{time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"}

func instant(to **time.Time, now time.Time) func(string) error {
	return func(s string) error {
		if ago, err := time.ParseDuration(s); err == nil {
			t := now.Add(-ago)
			*to = &t
			return nil
		}
		for _, layout := range layouts {
			if t, err := time.Parse(layout, s); err == nil {
				*to = &t
				return nil
			}
		}
		return fmt.Errorf("%q is neither a duration nor a time", s)
	}
}
