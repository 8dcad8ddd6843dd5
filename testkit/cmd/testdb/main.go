// Command testdb runs a command with one PostgreSQL server for all the test binaries below it:
//
//	testdb go test -race work
//
// It finds or starts the server as testkit/postgres tells, sets TEST_DATABASE_URL for the
// command, passes signals to it and ends with its exit code. A server that it started ends
// with it. When TEST_DATABASE_URL is set already, that server is used.
//
//	testdb -durable go test -bench . ./...
//
// starts one that syncs its commits, as benchmarks need it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/testkit/postgres"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testdb:", err)
	}
	os.Exit(code)
}

// run returns the command's exit code, 1 when there is none.
func run(args []string) (int, error) {
	durable := len(args) > 0 && args[0] == "-durable"
	if durable {
		args = args[1:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return 2, errors.New("usage: testdb [-durable] [--] command [argument …]")
	}
	// Before the start: a signal that comes early must not leave a server behind.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)

	server, err := postgres.Start(context.Background(), postgres.Options{
		URL: os.Getenv("TEST_DATABASE_URL"), Image: os.Getenv("TEST_POSTGRES_IMAGE"), Durable: durable,
	})
	if err != nil {
		return 1, err
	}
	fmt.Fprintln(os.Stderr, "testdb:", server.How)
	code, err := runCommand(args, server.AdminURL, signals)

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return code, errors.Join(err, server.Stop(ctx))
}

func runCommand(args []string, url string, signals <-chan os.Signal) (int, error) {
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "TEST_DATABASE_URL="+url)
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("start %s: %w", args[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s) // it may have ended
		case err := <-ended:
			var exit *exec.ExitError
			switch {
			case err == nil:
				return 0, nil
			case !errors.As(err, &exit):
				return 1, fmt.Errorf("run %s: %w", args[0], err)
			}
			if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
				return 128 + int(status.Signal()), nil // as shells tell it
			}
			return exit.ExitCode(), nil
		}
	}
}
