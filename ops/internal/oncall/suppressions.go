package oncall

import (
	"context"
	"flag"
	"fmt"
	"text/tabwriter"

	"github.com/slotwise/slotwise/pkg/ops/message"
)

func suppressions(ctx context.Context, c *call) error {
	var q message.SuppressionQuery
	words, err := c.parse(func(flags *flag.FlagSet) {
		flags.StringVar(&q.After, "after", "", "go on behind this `ADDRESS`")
		flags.IntVar(&q.Limit, "limit", 0, "only the first `N`")
	})
	if err != nil {
		return err
	}
	switch len(words) {
	case 0:
	case 1:
		q.Address = words[0]
	default:
		return c.wrong("one address at a time")
	}
	var page message.Suppressions
	if err := c.ask(ctx, "ops.get.suppressions", q, &page); err != nil {
		return err
	}
	if c.json {
		return c.write(page)
	}
	if len(page.Suppressions) == 0 {
		fmt.Fprintln(c.out, "no such suppressions")
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, s := range page.Suppressions {
		fmt.Fprintf(table, "%s\tsince %s\t%s\t%s\n", s.Address, at(&s.Since), s.Key, line(s.Reason))
	}
	table.Flush() //nolint:errcheck // nobody to tell when a terminal has gone
	if page.Next != "" {
		fmt.Fprintf(c.out, "there are more: --after %s\n", page.Next)
	}
	return nil
}

func lift(ctx context.Context, c *call) error {
	words, err := c.parse()
	if err != nil {
		return err
	}
	if len(words) != 1 {
		return c.wrong("name one address, or the key of a message to it")
	}
	var answer message.Lift
	if err := c.do(ctx, "lift", words[0], &answer); err != nil {
		return err
	}
	if c.json {
		err = c.write(answer)
	}
	if err == nil && !answer.Lifted {
		return fmt.Errorf("%w: that address is not suppressed", ErrNothing)
	}
	if err == nil && !c.json {
		fmt.Fprintln(c.out, "mails go to that address again; slotwise messages retry plans what was refused")
	}
	return err
}
