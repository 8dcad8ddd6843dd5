// Command notifier plans what bookings owe and sends it.
//
//	notifier           plan and send
//	notifier migrate   bring the schema up to date; DATABASE_URL is its owner's
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/services/notifier/migrations"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Getenv, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "notifier:", err)
		os.Exit(1)
	}
}

// run is main without the process: tests call it with their own settings.
func run(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second signal kills at once

	if len(args) == 1 && args[0] == "migrate" {
		return migrate(ctx, getenv)
	}
	env := config.New("notifier", getenv)
	s := readSettings(env)
	if env.Answer(args, out) {
		return nil
	}
	if err := env.Err(); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	if len(args) > 0 {
		return errors.New("unknown command; there is: migrate, and none to plan and send")
	}
	return serve(ctx, s, env)
}

// migrate needs no setting but the database's. It does not wait: whoever runs it sees the
// error and runs it again.
func migrate(ctx context.Context, getenv func(string) string) error {
	env := config.New("notifier migrate", getenv)
	database := pgdb.Read(env, "notifier", 2)
	if err := env.Err(); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	conn, err := pgdb.OpenURL(ctx, database.URL)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return pgdb.Migrate(ctx, conn, "notifier", migrations.Files)
}
