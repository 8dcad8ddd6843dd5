package oncall

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/slotwise/slotwise/pkg/ops/message"
)

// shown is how many keys of a change are written; --json tells all.
const shown = 20

// done says what was done to messages.
var done = map[string]string{"release": "released", "retry": "planned again", "discard": "discarded", "resend": "planned to be resent"}

func change(operation string) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		var order message.Order
		var yes bool
		words, err := c.parse(filterFlags(&order.Filter, time.Now()), func(flags *flag.FlagSet) {
			flags.BoolVar(&order.DryRun, "dry-run", false, "tell what would change, and change nothing")
			flags.BoolVar(&yes, "yes", false, "do it to more than one message that is not named by its key")
		})
		if err != nil {
			return err
		}
		order.Keys = words
		if len(words) == 0 && !yes && !order.DryRun {
			if err := c.oneAtMost(ctx, operation, order); err != nil {
				return err
			}
		}
		var answer message.Change
		if err := c.do(ctx, operation, order, &answer); err != nil {
			return err
		}
		if err := c.changed(answer); err != nil {
			return err
		}
		if answer.Changed == 0 {
			return fmt.Errorf("%w, or it stands where %s is not possible", ErrNothing, operation)
		}
		return nil
	}
}

// oneAtMost fails, and tells what would change, unless the order is about one message or none.
func (c *call) oneAtMost(ctx context.Context, operation string, order message.Order) error {
	order.DryRun = true
	var answer message.Change
	if err := c.do(ctx, operation, order, &answer); err != nil || answer.Changed <= 1 {
		return err
	}
	if err := c.changed(answer); err != nil {
		return err
	}
	return c.wrong("that is more than one message: say --yes to do it")
}

// changed tells what was, or would be, changed.
func (c *call) changed(answer message.Change) error {
	if c.json {
		return c.write(answer)
	}
	would := ""
	if answer.DryRun {
		would = "would be "
	}
	for _, key := range answer.Keys[:min(len(answer.Keys), shown)] {
		fmt.Fprintln(c.out, key)
	}
	if more := answer.Changed - shown; more > 0 {
		fmt.Fprintf(c.out, "… and %d more\n", more)
	}
	noun := "messages"
	if answer.Changed == 1 {
		noun = "message"
	}
	fmt.Fprintf(c.out, "%d %s %s%s\n", answer.Changed, noun, would, done[answer.Operation])
	return nil
}

func turn(operation string) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		words, err := c.parse()
		if err != nil {
			return err
		}
		name := "mail"
		switch len(words) {
		case 0:
		case 1:
			name = words[0]
		default:
			return c.wrong("one switch at a time")
		}
		var answer message.SwitchChange
		if err := c.do(ctx, operation, message.SwitchOrder{Switch: name}, &answer); err != nil {
			return err
		}
		if c.json {
			return c.write(answer)
		}
		state := map[string]string{"pause": "paused", "resume": "not paused"}[operation]
		if answer.Changed {
			fmt.Fprintf(c.out, "%s %s %s\n", name, be(name, "is", "are"), state)
		} else {
			fmt.Fprintf(c.out, "%s %s %s already\n", name, be(name, "was", "were"), state)
		}
		return nil
	}
}

func switches(ctx context.Context, c *call) error {
	if err := c.alone(); err != nil {
		return err
	}
	var answer []message.Switch
	if err := c.ask(ctx, "ops.get.switches", "", &answer); err != nil {
		return err
	}
	if c.json {
		return c.write(answer)
	}
	for _, s := range answer {
		fmt.Fprintln(c.out, state(s))
	}
	return nil
}

// state tells how a switch stands.
func state(s message.Switch) string {
	if s.Paused {
		return fmt.Sprintf("%s %s paused by %s since %s", s.Name, be(s.Name, "is", "are"), s.ChangedBy, at(&s.ChangedAt))
	}
	return s.Name + " " + be(s.Name, "is", "are") + " not paused"
}

// be is the verb's form for a switch.
func be(name, one, many string) string {
	if name == "webhooks" {
		return many
	}
	return one
}
