// Command booking is the booking service: the HTTP API over the schema that it owns, and the
// commands that prepare it. It exits with 0, with 1 when something failed, and with 2 when it
// was called in a wrong way.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // zones also where the machine has none

	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/services/booking/migrations"
)

const commands = `booking                       serve
booking migrate               bring the schema up to date; DATABASE_URL is its owner's
booking resources apply FILE  make resources as FILE says; - reads standard input
booking resources list        print all resources
booking keys create FLAGS     make an API key and print it, this once
    --name NAME               what it is for
    --scopes LIST             some of bookings:read,bookings:write,webhooks,admin; admin may do all
    --resources LIST          ids of the only resources that it may see and change; by default all
    --days N                  until it expires; by default it does not
booking keys list             print all keys, and when each was used last
booking keys revoke ID        end a key, at once and for good
booking raise                 after the database was restored: read what slotwise snapshot writes, and raise each
                              booking above the version that consumers have been told
`

func main() {
	if err := run(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "booking:", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// run is main without the process: tests call it with their own settings.
func run(ctx context.Context, args []string, getenv func(string) string, in io.Reader, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second signal kills at once

	env := config.New("booking", getenv)
	env.Commands(commands)
	s := readSettings(env)
	if env.Answer(args, out) {
		return nil
	}
	command, err := find(args)
	if err != nil {
		return err
	}
	if err := env.Err(); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	if command == nil {
		return serve(ctx, s, env)
	}
	return command(ctx, s, in, out)
}

// command is one that is called rightly.
type command func(ctx context.Context, s settings, in io.Reader, out io.Writer) error

// find returns what args call, nil to serve. It is asked before the settings are: who called
// the program in a wrong way is told that.
func find(args []string) (command, error) {
	switch {
	case len(args) == 0:
		return nil, nil //nolint:nilnil // to serve
	case args[0] == "keys":
		return findKeys(args[1:])
	case len(args) == 1 && args[0] == "migrate":
		return func(ctx context.Context, s settings, _ io.Reader, _ io.Writer) error { return migrate(ctx, s) }, nil
	case len(args) == 1 && args[0] == "raise":
		return raise, nil
	case len(args) == 3 && args[0] == "resources" && args[1] == "apply":
		return func(ctx context.Context, s settings, in io.Reader, out io.Writer) error {
			return applyResources(ctx, s, args[2], in, out)
		}, nil
	case len(args) == 2 && args[0] == "resources" && args[1] == "list":
		return func(ctx context.Context, s settings, _ io.Reader, out io.Writer) error {
			return listResources(ctx, s, out)
		}, nil
	}
	return nil, usage("unknown command; there are migrate, resources apply FILE, resources list, keys create|list|revoke, raise, and none to serve")
}

// migrate does not wait: whoever runs it sees the error and runs it again.
func migrate(ctx context.Context, s settings) error {
	conn, err := pgdb.OpenURL(ctx, s.database.URL)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return pgdb.Migrate(ctx, conn, "booking", migrations.Files)
}
