// Package oncall is the part of the slotwise program that engineers on call use: it asks the
// services' ops endpoints over NATS and writes what they answer as text or as JSON.
//
// A change by filter that would touch more than one message is shown and not made, until it
// is asked for with --yes; messages that are named by their keys need none. An endpoint for which
// deliveries wait is deleted with --yes only.
package oncall

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Command is one thing that an engineer may do.
type Command struct {
	Name  string // one or two words
	Args  string // shown behind the name
	About string

	run func(ctx context.Context, c *call) error
}

// Commands are all of them, in the order in which help lists them.
var Commands = []Command{
	{"trace", "BOOKING", "tell the story of one booking's messages", trace},
	{"overdue", "", "list what is late with nothing that explains it", overdue},
	{"messages list", "[flags]", "list messages; without flags: held and refused ones", list},
	{"messages show", "KEY …", "show messages with all that is known of them", show},
	{"messages release", "[KEY …] [flags]", "plan held messages again, as they are", change("release")},
	{"messages retry", "[KEY …] [flags]", "plan held and refused messages again, with all their tries", change("retry")},
	{"messages discard", "[KEY …] [flags]", "never send messages that are not sent yet", change("discard")},
	{"messages resend", "[KEY …] [flags]", "send the mail of the present state once more", change("resend")},
	{"suppressions list", "[ADDRESS] [flags]", "list addresses that refused for good, to which no mail goes", suppressions},
	{"suppressions lift", "KEY|ADDRESS", "let mails go again to such an address", lift},
	{"webhooks list", "[flags]", "list endpoints of webhooks and how they stand", endpoints},
	{"webhooks show", "ENDPOINT", "show an endpoint", showEndpoint},
	{"webhooks create", "--url URL [flags]", "make an endpoint; its secret is shown once", createEndpoint},
	{"webhooks disable", "ENDPOINT [flags]", "hold what is for an endpoint", turnEndpoint("disable", "held")},
	{"webhooks enable", "ENDPOINT", "plan again what was held because it was disabled", turnEndpoint("enable", "planned again")},
	{"webhooks delete", "ENDPOINT [--yes]", "delete an endpoint for good and skip what waits for it", turnEndpoint("delete", "skipped")},
	{"webhooks rotate", "ENDPOINT [flags]", "make a new secret, which is shown once", rotate},
	{"webhooks example", "ENDPOINT", "deliver an example", example},
	{"webhooks resend", "KEY", "deliver once more", resendDelivery},
	{"webhooks recover", "ENDPOINT --since TIME", "deliver what was held or refused since then", recoverEndpoint},
	{"webhooks deliveries", "ENDPOINT|KEY [flags]", "list deliveries, the newest first, or show one with its tries", deliveries},
	{"pause", "[mail|webhooks]", "hand nothing more to a server, until resume", turn("pause")},
	{"resume", "[mail|webhooks]", "end a pause", turn("resume")},
	{"switches", "", "show what is paused", switches},
	{"relay", "", "tell what waits in the outbox, what is parked, and whether the relay pauses", relay},
	{"unpark", "[ID …] [--all]", "let the relay try parked events again", unpark},
	{"republish", "--since TIME", "publish kept events again to a stream that has lost them", republish},
	{"snapshot", "", "write the last event of each booking that the stream holds, one JSON a line", snapshot},
	{"reconcile", "", "make reminders' schedules again that are missing", reconcile},
}

// ErrUsage says that the command line or the settings are wrong; exit with 2.
var ErrUsage = errors.New("wrong usage")

// ErrNothing says that nothing is what was asked for, or stands where that is possible; exit
// with 3.
var ErrNothing = errors.New("nothing matches")

// conflictError is [ErrNothing] where there is something, but it stands where the command is not
// possible: it tells why.
type conflictError string

func (e conflictError) Error() string { return string(e) }

func (e conflictError) Unwrap() error { return ErrNothing }

// Find returns the command that args begin with and the arguments behind it; ok is false when
// there is none.
func Find(args []string) (c Command, rest []string, ok bool) {
	for _, c := range Commands {
		words := strings.Fields(c.Name)
		if len(args) >= len(words) && slices.Equal(args[:len(words)], words) {
			return c, args[len(words):], true
		}
	}
	return Command{}, nil, false
}

// Begins reports whether word begins a command.
func Begins(word string) bool {
	return slices.ContainsFunc(Commands, func(c Command) bool { return strings.Fields(c.Name)[0] == word })
}

// Help writes the commands whose names begin with word; empty: all.
func Help(w io.Writer, word string) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range Commands {
		if strings.HasPrefix(c.Name, word) {
			fmt.Fprintf(table, "  slotwise %s\t%s\n", strings.TrimSpace(c.Name+" "+c.Args), c.About)
		}
	}
	table.Flush() //nolint:errcheck // nobody to tell when a terminal has gone
}

// Run runs the command with the arguments behind its name. It writes answers to out. Errors
// are [ErrUsage], [ErrNothing], or whatever kept the services from answering.
func (c Command) Run(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	err := c.run(ctx, &call{command: c, args: args, getenv: getenv, out: out, service: "notifier", patience: patience})
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	return err
}

// call is one run of a command.
type call struct {
	command Command
	args    []string
	getenv  func(string) string
	out     io.Writer

	service  string        // that answers; by default the notifier
	patience time.Duration // how long that may take; by default [patience]
	json     bool
}

// parse reads the flags, which may stand before and behind the other arguments, and returns
// those. Asked for help it writes it and returns [flag.ErrHelp].
func (c *call) parse(define ...func(*flag.FlagSet)) ([]string, error) {
	flags := flag.NewFlagSet(c.command.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&c.json, "json", false, "write the answer as JSON")
	for _, d := range define {
		d(flags)
	}
	var words []string
	for rest := c.args; ; rest = rest[1:] {
		err := flags.Parse(rest)
		if errors.Is(err, flag.ErrHelp) {
			c.help(flags)
			return nil, err
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w; see slotwise %s --help", ErrUsage, err, c.command.Name)
		}
		rest = flags.Args()
		if len(rest) == 0 {
			return words, nil
		}
		words = append(words, rest[0])
	}
}

func (c *call) help(flags *flag.FlagSet) {
	fmt.Fprintf(c.out, "slotwise %s: %s\n\n", strings.TrimSpace(c.command.Name+" "+c.command.Args), c.command.About)
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	flags.VisitAll(func(f *flag.Flag) {
		name, about := flag.UnquoteUsage(f)
		fmt.Fprintf(table, "  --%s\t%s\n", strings.TrimSpace(f.Name+" "+name), about)
	})
	table.Flush() //nolint:errcheck // nobody to tell when a terminal has gone
	fmt.Fprintln(c.out)
	_, _, env := settings(c.getenv)
	env.Answer([]string{"help"}, c.out)
}

// wrong is an error of usage.
func (c *call) wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %s; see slotwise %s --help", ErrUsage, fmt.Sprintf(format, args...), c.command.Name)
}
