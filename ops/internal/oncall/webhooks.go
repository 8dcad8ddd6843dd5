package oncall

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/slotwise/slotwise/pkg/ops/message"
)

func endpoints(ctx context.Context, c *call) error {
	var q message.EndpointQuery
	words, err := c.parse(func(flags *flag.FlagSet) {
		flags.BoolVar(&q.Deleted, "deleted", false, "deleted ones as well")
		flags.StringVar(&q.After, "after", "", "go on behind this `ID`")
		flags.IntVar(&q.Limit, "limit", 0, "only the first `N`")
	})
	if err != nil {
		return err
	}
	if len(words) > 0 {
		return c.wrong("there is nothing to name")
	}
	var page message.Endpoints
	if err := c.ask(ctx, "ops.get.webhooks", q, &page); err != nil {
		return err
	}
	if c.json {
		return c.write(page)
	}
	if len(page.Endpoints) == 0 {
		fmt.Fprintln(c.out, "no endpoints")
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, e := range page.Endpoints {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", e.ID, standing(e), e.URL, e.Description)
	}
	table.Flush() //nolint:errcheck // nobody to tell when a terminal has gone
	if page.Next != "" {
		fmt.Fprintf(c.out, "there are more: --after %s\n", page.Next)
	}
	return nil
}

// standing tells how an endpoint stands.
func standing(e message.Endpoint) string {
	switch {
	case e.DeletedAt != nil:
		return "deleted " + at(e.DeletedAt)
	case !e.Enabled:
		return "disabled " + at(e.DisabledAt) + ": " + line(e.DisabledReason)
	case e.FailingSince != nil:
		return "failing since " + at(e.FailingSince)
	}
	return "enabled"
}

func showEndpoint(ctx context.Context, c *call) error {
	name, err := c.named("endpoint")
	if err != nil {
		return err
	}
	var page message.Endpoints
	if err := c.ask(ctx, "ops.get.webhooks", message.EndpointQuery{ID: name}, &page); err != nil {
		return err
	}
	if len(page.Endpoints) == 0 {
		return fmt.Errorf("%w: there is no such endpoint", ErrNothing)
	}
	e := page.Endpoints[0]
	if c.json {
		return c.write(e)
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, text)
		}
	}
	all := func(list []string) string {
		if list == nil {
			return "all"
		}
		return strings.Join(list, ", ")
	}
	fmt.Fprintln(c.out, e.ID)
	row("state", standing(e))
	row("url", e.URL)
	row("description", e.Description)
	row("owner", e.Owner)
	row("event types", all(e.EventTypes))
	row("resources", all(e.Resources))
	row("at once", fmt.Sprint(e.Concurrency))
	if e.Rate != nil {
		row("a second", fmt.Sprint(*e.Rate))
	}
	row("created", at(&e.CreatedAt))
	row("changed", at(&e.ChangedAt))
	for _, s := range e.Secrets {
		if s.ExpiresAt != nil {
			row("old secret signs until", at(s.ExpiresAt))
		}
	}
	table.Flush() //nolint:errcheck // nobody to tell when a terminal has gone
	return nil
}

func createEndpoint(ctx context.Context, c *call) error {
	var s message.EndpointSettings
	words, err := c.parse(func(flags *flag.FlagSet) {
		flags.StringVar(&s.URL, "url", "", "where deliveries go, an https `URL`")
		flags.StringVar(&s.Description, "description", "", "whose it is, and what for, as `TEXT`")
		flags.StringVar(&s.Owner, "owner", "", "mail `ADDRESS` of who is told when it is disabled")
		flags.Func("type", "only these event `TYPES`, such as booking.v1.confirmed; separated by commas", separated(&s.EventTypes))
		flags.Func("resource", "only events of these `RESOURCES`; separated by commas", separated(&s.Resources))
		flags.Func("concurrency", "at most `N` deliveries at once, 1 to 64; by default 4", number(&s.Concurrency))
		flags.Func("rate", "at most `N` deliveries a second, 1 to 10000; by default any number", number(&s.Rate))
	})
	if err != nil {
		return err
	}
	if len(words) > 0 || s.URL == "" {
		return c.wrong("name a --url, and nothing without a flag")
	}
	var answer message.NewSecret
	if err := c.do(ctx, "webhook-create", s, &answer); err != nil {
		return err
	}
	if c.json {
		return c.write(answer)
	}
	fmt.Fprintf(c.out, "endpoint %s\nsecret   %s\nThe secret is shown this once.\n", answer.Endpoint, answer.Secret)
	if s.Owner == "" {
		fmt.Fprintln(c.out, "It has no --owner: nobody is told when it is disabled.")
	}
	return nil
}

// number reads a number. It stays nil when the flag is not there: zero is not that.
func number(to **int) func(string) error {
	return func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil {
			return errors.New("it is no whole number")
		}
		*to = &n
		return nil
	}
}

// separated reads words that are separated by commas.
func separated(to *[]string) func(string) error {
	return func(s string) error {
		*to = append(*to, strings.Split(s, ",")...)
		return nil
	}
}

// named reads the one thing that a command is about.
func (c *call) named(what string, define ...func(*flag.FlagSet)) (string, error) {
	words, err := c.parse(define...)
	if err != nil {
		return "", err
	}
	if len(words) != 1 {
		return "", c.wrong("name one %s", what)
	}
	return words[0], nil
}

// turnEndpoint is disable, enable and delete.
func turnEndpoint(operation, what string) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		var order message.EndpointOrder
		var yes bool
		var err error
		order.Endpoint, err = c.named("endpoint", func(flags *flag.FlagSet) {
			switch operation {
			case "disable":
				flags.StringVar(&order.Reason, "reason", "", "why, as `TEXT` that its owner and others read")
			case "delete":
				flags.BoolVar(&yes, "yes", false, "delete it though deliveries wait for it: they are never made")
			}
		})
		if err != nil {
			return err
		}
		if operation == "delete" && !yes {
			if err := c.noneWaits(ctx, order); err != nil {
				return err
			}
		}
		answer, err := c.order(ctx, operation, order)
		if err != nil || c.json {
			return err
		}
		if !answer.Changed {
			fmt.Fprintf(c.out, "%s is %sd already\n", order.Endpoint, operation)
			return nil
		}
		fmt.Fprintf(c.out, "%s is %sd; %s %s\n", order.Endpoint, operation, count(int(answer.Messages), "delivery"), what)
		return nil
	}
}

// noneWaits fails when deliveries wait for an endpoint that is to be deleted.
func (c *call) noneWaits(ctx context.Context, order message.EndpointOrder) error {
	order.DryRun = true
	answer, err := c.ordered(ctx, "delete", order)
	if err != nil || answer.Messages == 0 {
		return err
	}
	if c.json {
		if err := c.write(answer); err != nil {
			return err
		}
	}
	wait := "deliveries wait for it and would never be made"
	if answer.Messages == 1 {
		wait = "delivery waits for it and would never be made"
	}
	return c.wrong("%d %s: say --yes to delete it for good", answer.Messages, wait)
}

// order gives a command on one endpoint. With --json it has written the answer.
func (c *call) order(ctx context.Context, operation string, order message.EndpointOrder) (answer message.EndpointChange, err error) {
	answer, err = c.ordered(ctx, operation, order)
	if err == nil && c.json {
		err = c.write(answer)
	}
	return answer, err
}

func (c *call) ordered(ctx context.Context, operation string, order message.EndpointOrder) (answer message.EndpointChange, err error) {
	if err := c.do(ctx, "webhook-"+operation, order, &answer); err != nil {
		return answer, err
	}
	switch {
	case answer.Missing:
		return answer, fmt.Errorf("%w: there is no such endpoint or delivery", ErrNothing)
	case answer.Problem != "":
		return answer, conflictError(answer.Problem)
	}
	return answer, nil
}

func rotate(ctx context.Context, c *call) error {
	overlap := 24 * time.Hour
	name, err := c.named("endpoint", func(flags *flag.FlagSet) {
		flags.DurationVar(&overlap, "overlap", overlap, "`HOW LONG` the old secret signs as well, such as 24h; at most 720h")
	})
	if err != nil {
		return err
	}
	seconds := int(overlap / time.Second)
	answer, err := c.order(ctx, "rotate", message.EndpointOrder{Endpoint: name, Overlap: &seconds})
	if err != nil || c.json {
		return err
	}
	fmt.Fprintf(c.out, "secret   %s\nIt is shown this once. The old one signs as well for %s.\n", answer.Secret, overlap)
	return nil
}

func example(ctx context.Context, c *call) error {
	name, err := c.named("endpoint")
	if err != nil {
		return err
	}
	return c.plan(ctx, "example", message.EndpointOrder{Endpoint: name})
}

func resendDelivery(ctx context.Context, c *call) error {
	key, err := c.named("delivery by its key")
	if err != nil {
		return err
	}
	return c.plan(ctx, "resend", message.EndpointOrder{Key: key})
}

func (c *call) plan(ctx context.Context, operation string, order message.EndpointOrder) error {
	answer, err := c.order(ctx, operation, order)
	if err != nil || c.json {
		return err
	}
	fmt.Fprintf(c.out, "planned: %s\n", answer.Key)
	return nil
}

func recoverEndpoint(ctx context.Context, c *call) error {
	var order message.EndpointOrder
	var err error
	order.Endpoint, err = c.named("endpoint", func(flags *flag.FlagSet) {
		flags.Func("since", "what was planned since this `TIME`, such as 48h (ago), 2026-12-01 or 2026-12-01T09:30:00Z", instant(&order.Since, time.Now()))
	})
	if err != nil {
		return err
	}
	if order.Since == nil {
		return c.wrong("say --since when")
	}
	answer, err := c.order(ctx, "recover", order)
	if err != nil || c.json {
		return err
	}
	fmt.Fprintf(c.out, "%s planned again\n", count(int(answer.Messages), "delivery"))
	return nil
}

func deliveries(ctx context.Context, c *call) error {
	var q message.DeliveryQuery
	name, err := c.named("endpoint, or a delivery by its key", func(flags *flag.FlagSet) {
		flags.Func("state", "only these `STATES`: planned, handed, sent, refused, unknown, held, skipped; separated by commas", separated(&q.States))
		flags.Func("since", "only planned since this `TIME`", instant(&q.Since, time.Now()))
		flags.Func("until", "only planned before this `TIME`", instant(&q.Until, time.Now()))
		flags.StringVar(&q.Before, "before", "", "go on behind the delivery with this `KEY`")
		flags.IntVar(&q.Limit, "limit", 0, "only the newest `N`")
	})
	if err != nil {
		return err
	}
	if strings.HasPrefix(name, "webhook-") {
		q.Key = name
	} else {
		q.Endpoint = name
	}
	var page message.Deliveries
	if err := c.ask(ctx, "ops.get.deliveries", q, &page); err != nil {
		return err
	}
	if c.json {
		return c.write(page)
	}
	if len(page.Deliveries) == 0 && q.Key != "" {
		return fmt.Errorf("%w: there is no delivery of that key", ErrNothing)
	}
	if len(page.Deliveries) == 0 {
		fmt.Fprintln(c.out, "no such deliveries")
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, d := range page.Deliveries {
		fmt.Fprintf(table, "%s\t%s\t%s\n", d.Key, d.Type, progress(d))
		for _, a := range d.Attempts {
			fmt.Fprintf(table, "  try %d\t%s\t%s\n", a.N, at(&a.At), attempt(a))
		}
	}
	table.Flush() //nolint:errcheck // nobody to tell when a terminal has gone
	if q.Key != "" && len(page.Deliveries) == 1 {
		fmt.Fprintf(c.out, "\n%s\n", line(page.Deliveries[0].Body))
	}
	if page.Next != "" {
		fmt.Fprintf(c.out, "there are more: --before %s\n", page.Next)
	}
	return nil
}

// progress tells how a delivery stands.
func progress(d message.Delivery) string {
	text := d.State
	switch {
	case d.AcceptedAt != nil:
		text += " " + at(d.AcceptedAt)
	case d.NextAt != nil:
		text += ", next try " + at(d.NextAt)
	}
	if d.Tries != 1 {
		text += fmt.Sprintf(" (%d tries)", d.Tries)
	} else {
		text += " (1 try)"
	}
	if d.Reason != "" {
		text += ": " + line(d.Reason)
	}
	return text
}

// attempt tells what a try came to.
func attempt(a message.Attempt) string {
	if a.EndedAt == nil {
		return "in hand"
	}
	took := ""
	if a.Duration != nil {
		took = fmt.Sprintf(" after %d ms", *a.Duration)
	}
	return strings.TrimSuffix(outcome("webhook", a.Outcome)+took+": "+line(a.Answer), ": ")
}
