package oncall

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/slotwise/slotwise/pkg/ops/message"
)

func list(ctx context.Context, c *call) error {
	var q message.Query
	words, err := c.parse(filterFlags(&q.Filter, time.Now()), func(flags *flag.FlagSet) {
		flags.StringVar(&q.After, "after", "", "go on behind the message with this `KEY`")
	})
	if err != nil {
		return err
	}
	q.Keys = words
	var page message.Page
	if err := c.ask(ctx, "ops.get.messages", q, &page); err != nil {
		return err
	}
	if c.json {
		return c.write(page)
	}
	switch {
	case len(page.Messages) > 0:
		c.lines(page.Messages)
	case q.After != "":
		fmt.Fprintln(c.out, "no more messages")
	default:
		fmt.Fprintln(c.out, "no such messages")
	}
	if page.Next != "" {
		fmt.Fprintf(c.out, "there are more: --after %s\n", page.Next)
	}
	return nil
}

func overdue(ctx context.Context, c *call) error {
	if err := c.alone(); err != nil {
		return err
	}
	var answer message.Overdue
	if err := c.ask(ctx, "ops.get.overdue", "", &answer); err != nil {
		return err
	}
	if c.json {
		return c.write(answer)
	}
	fmt.Fprintf(c.out, "%d overdue; %d held and %d refused wait for a person\n", answer.Overdue, answer.Held, answer.Refused)
	c.lines(answer.Messages)
	return nil
}

func show(ctx context.Context, c *call) error {
	words, err := c.parse()
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return c.wrong("name at least one key")
	}
	var page message.Page
	if err := c.ask(ctx, "ops.get.messages", message.Query{Filter: message.Filter{Keys: words}}, &page); err != nil {
		return err
	}
	if len(page.Messages) == 0 {
		return fmt.Errorf("%w: there is no message of that key", ErrNothing)
	}
	if c.json {
		return c.write(page.Messages)
	}
	for i, m := range page.Messages {
		if i > 0 {
			fmt.Fprintln(c.out)
		}
		c.details(m)
	}
	return nil
}

// lines writes a line for each message: key and verdict.
func (c *call) lines(messages []message.Message) {
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, m := range messages {
		fmt.Fprintf(table, "%s\t%s\n", m.Key, m.Verdict)
	}
	table.Flush() //nolint:errcheck // nobody to tell when a terminal has gone
}

// details writes everything that is known of a message.
func (c *call) details(m message.Message) {
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	row := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" && text != "0" {
			fmt.Fprintf(table, "%s\t%s\n", name, text)
		}
	}
	kind, failed := m.Kind, "refused for now"
	if m.Channel == "webhook" {
		kind, failed = "", "failed"
	}
	fmt.Fprintln(c.out, m.Key)
	row("verdict", m.Verdict)
	row("state", strings.TrimSuffix(m.State+": "+m.Reason, ": "))
	row("what", strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s", m.Channel, kind, m.Role, m.Endpoint)), " "))
	row("booking", m.Booking)
	row("version", m.Version)
	row("planned", at(&m.CreatedAt))
	row("due", at(&m.DueAt))
	row("handed", at(m.HandedAt))
	row("accepted", at(m.AcceptedAt))
	row("quiet until", at(m.QuietUntil))
	row("tries", m.Tries)
	row(failed, m.Attempts)
	row("unknown marks", m.Unknowns)
	row("last answer", strings.TrimSpace(at(m.AnsweredAt)+" "+line(m.Answer)))
	table.Flush() //nolint:errcheck // nobody to tell when a terminal has gone
}

// at writes an instant for people: UTC, whole seconds; nothing for none.
func at(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// line is text on one line.
func line(text string) string { return strings.Join(strings.Fields(text), " ") }
