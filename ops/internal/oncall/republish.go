package oncall

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"time"
)

// republish has the relay publish kept events again, page by page, and says how many the
// stream has stored.
func republish(ctx context.Context, c *call) error {
	c.service = "relay"
	var since *time.Time
	now := time.Now()
	words, err := c.parse(func(flags *flag.FlagSet) {
		flags.Func("since", "events written since this `TIME`, such as 2h (ago), 2026-12-01 or 2026-12-01T09:30:00Z", instant(&since, now))
	})
	switch {
	case err != nil:
		return err
	case len(words) > 0:
		return c.wrong("%s is no argument of it", words[0])
	case since == nil:
		return c.wrong("say --since when")
	}
	order := struct {
		Since time.Time `json:"since"`
		Run   string    `json:"run"`
		After int64     `json:"after,omitempty"`
	}{Since: *since, Run: strconv.FormatInt(now.UnixMilli(), 36)}
	var total struct {
		Stored     int `json:"stored"`
		Duplicates int `json:"duplicates"`
	}
	asJSON := c.json
	c.json = false // one answer for all pages
	for more := true; more; {
		var page struct {
			Stored     int   `json:"stored"`
			Duplicates int   `json:"duplicates"`
			Last       int64 `json:"last"`
			More       bool  `json:"more"`
		}
		if err := c.do(ctx, "republish", order, &page); err != nil {
			return fmt.Errorf("after %d events: %w", total.Stored, err)
		}
		total.Stored += page.Stored
		total.Duplicates += page.Duplicates
		order.After, more = page.Last, page.More
	}
	if asJSON {
		return c.write(total)
	}
	fmt.Fprintf(c.out, "%s stored again\n", count(total.Stored, "event"))
	if total.Stored == 0 {
		return fmt.Errorf("%w: no event since then is kept", ErrNothing)
	}
	return nil
}
