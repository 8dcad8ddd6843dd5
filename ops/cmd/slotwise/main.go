// Command slotwise is the operator's program: it asks the services over NATS.
//
// It exits with 0, with 1 when something failed, with 2 when it was used in a wrong way, and
// with 3 when nothing is what was asked for.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/slotwise/slotwise/ops/internal/declare"
	"github.com/slotwise/slotwise/ops/internal/oncall"
	"github.com/slotwise/slotwise/pkg/config"
)

func main() {
	err := run(context.Background(), os.Args[1:], os.Getenv, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "slotwise:", err)
	}
	os.Exit(code(err))
}

// run is main without the process: tests call it with their own settings.
func run(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second signal kills at once

	if len(args) == 0 || slices.Contains([]string{"-h", "--help", "help"}, args[0]) {
		help(out, "")
		return nil
	}
	if config.New("slotwise", getenv).Answer(args[:1], out) { // --version
		return nil
	}
	if len(args) > 1 && args[0] == "topology" && args[1] == "apply" {
		return declare.Apply(ctx, args[2:], getenv, out)
	}
	if command, rest, ok := oncall.Find(args); ok {
		return command.Run(ctx, rest, getenv, out)
	}
	if oncall.Begins(args[0]) {
		help(out, args[0])
		if len(args) > 1 && strings.HasPrefix(args[1], "-") { // --help
			return nil
		}
		return fmt.Errorf("%w: slotwise %s what?", oncall.ErrUsage, args[0])
	}
	return fmt.Errorf("%w: there is no command %q; see slotwise --help", oncall.ErrUsage, args[0])
}

// help lists the commands that begin with word; empty: all.
func help(out io.Writer, word string) {
	fmt.Fprint(out, "slotwise asks and commands the services of one Slotwise installation.\n\n")
	oncall.Help(out, word)
	if word == "" {
		fmt.Fprint(out, "  slotwise topology apply [--every 10s] [--teams FILE]\n      keep streams and consumers as they are declared\n")
	}
	fmt.Fprint(out, "\nslotwise <command> --help tells its flags and settings; docs/operations.md tells what to do when.\n")
}

// code is what the program exits with.
func code(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, oncall.ErrUsage), errors.Is(err, declare.ErrUsage):
		return 2
	case errors.Is(err, oncall.ErrNothing):
		return 3
	}
	return 1
}
