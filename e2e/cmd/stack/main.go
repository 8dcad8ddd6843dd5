// Command stack runs a whole Slotwise on this machine for a person: `make run`.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/testkit/checkout"
)

// stopTime is how long a stop may take, all parts together.
const stopTime = 10 * time.Second

// errSettings says that what a person has set is wrong.
var errSettings = errors.New("settings")

func main() {
	if err := run(context.Background(), os.Args[1:], os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, "make run:", err)
		if errors.Is(err, errSettings) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	root, err := checkout.Root()
	if err != nil {
		return err
	}
	env := config.New("make run", getenv)
	c := read(env, root)
	fresh := env.Choice("FRESH", "1: begin with no data", "", "0", "1") == "1"
	if env.Answer(args, os.Stdout) {
		return nil
	}
	if err := env.Err(); err != nil {
		return fmt.Errorf("%w:\n%w", errSettings, err)
	}
	unlock, err := lock(c.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := own(ctx, c); err != nil {
		return err
	}
	if fresh {
		// A server that still runs keeps its files.
		if err := c.Check(ctx); err != nil {
			return err //nolint:wrapcheck // it says what
		}
		if err := empty(c.Dir); err != nil {
			return fmt.Errorf("empty the data folder: %w", err)
		}
	}
	return serve(ctx, c)
}

// read reads what a person may set; REMINDER_LEAD and the services' other settings go on to
// them as they are.
func read(env *config.Reader, root string) stack.Config {
	port := func(name string, fallback int, what string) int { return env.Int(name, fallback, 1, 65000, what) }
	return stack.Config{
		Root: root,
		Dir:  env.String("SLOTWISE_DIR", filepath.Join(root, ".slotwise"), "folder that keeps all data"),
		Bin:  filepath.Join(root, "bin"),
		Host: env.String("LISTEN", "127.0.0.1", "address that everything listens on"),
		Ports: stack.Ports{
			HTTP:     port("HTTP_PORT", 8080, "port of the API"),
			Notifier: port("NOTIFIER_PORT", 8081, "port of the notifier's API of webhooks, which takes reports of bounces too, if BOUNCE_SECRET is set"),
			Inbox:    port("INBOX_PORT", 8025, "port of the inbox's page"),
			SMTP:     port("SMTP_PORT", 1025, "port of the inbox's SMTP server"),
			NATS:     port("NATS_PORT", 4222, "port of nats-server"),
			Postgres: port("POSTGRES_PORT", 54320, "port of PostgreSQL"),
			Admin:    port("ADMIN_PORT", 9101, "port of booking's probes and metrics; relay, notifier and scheduler follow"),
		},
		DatabaseURL: given(env, "DATABASE_URL", "use this PostgreSQL (an administrator's URL) and start none", "postgres", "postgresql"),
		NATSURL:     given(env, "NATS_URL", "use this NATS and start none", "nats", "tls"),
		SMTPURL:     given(env, "SMTP_URL", "send to this server and start no inbox", "smtp", "smtps"),
		Keep:        true,
		Sync:        true,
		Out:         os.Stdout,
	}
}

// given reads the URL of a server that runs already; unset means that we start one.
func given(env *config.Reader, name, about string, schemes ...string) string {
	value := env.Secret(name, about)
	if value == "" {
		return ""
	}
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || (u.Scheme != schemes[0] && u.Scheme != schemes[1]) {
		env.Mistake(name, fmt.Sprintf("must be a URL that begins with %s:// or %s://", schemes[0], schemes[1]))
	}
	return value
}

func serve(ctx context.Context, c stack.Config) error {
	fmt.Println("building …")
	if err := stack.Build(ctx, c.Root, c.Bin, os.Stderr); err != nil {
		return stopped(ctx, err)
	}
	s, err := stack.Start(ctx, c)
	if err != nil {
		return stopped(ctx, err)
	}
	err = resources(ctx, c, s)
	if err == nil {
		welcome(c, s)
		<-ctx.Done()
		fmt.Println("\nstopping …")
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	return errors.Join(err, s.Stop(stopping))
}

// stopped forgets an error that is only the consequence of Ctrl-C.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		fmt.Println("stopped")
		return nil //nolint:nilerr // what was asked for
	}
	return err
}

// resources gives a new installation something to book.
func resources(ctx context.Context, c stack.Config, s *stack.Stack) error {
	cmd := exec.CommandContext(ctx, filepath.Join(c.Bin, "booking"), "resources", "apply", filepath.Join(c.Root, "examples", "resources.yaml")) //nolint:gosec // our own
	cmd.Env = append(os.Environ(), "DATABASE_URL="+s.DatabaseURL("slotwise_booking"))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apply examples/resources.yaml: %w", err)
	}
	return nil
}

func welcome(c stack.Config, s *stack.Stack) {
	key := filepath.Join(c.Dir, stack.KeyFile)
	start := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Hour).Format(time.RFC3339)
	fmt.Printf(`
Slotwise is ready.

  API        %s
  API key    %s
  webhooks   %s/v1/webhooks
  inbox      %s
  NATS       %s    (XDG_CONFIG_HOME=%s bin/nats stream ls, after make tools)
  probes     %s/readyz
  variables  . %s

Book something, and look into the inbox. Click the link in the mail to move or cancel:

  curl -sS %s/v1/bookings -H "Authorization: Bearer $(cat '%s')" -H 'Content-Type: application/json' -d '{
    "resource": "room-7", "start": "%s", "seats": 1,
    "name": "Ada Lovelace", "address": "ada@example.org", "locale": "en", "note": "window seat"}'

Ctrl-C stops everything; the data stays in %s.
`, s.APIURL(), key, s.FrontURL("notifier"), orDash(s.InboxURL()), s.NATSURL(), filepath.Join(c.Dir, "nats-cli"), s.AdminURL("booking"), filepath.Join(c.Dir, "env"), s.APIURL(), key, start, c.Dir)
}

func orDash(s string) string {
	if s == "" {
		return "none: mails go to SMTP_URL"
	}
	return s
}

// lockFile is what a running `make run` holds, and what [empty] leaves.
const lockFile = "lock"

// lock keeps a second `make run` from sharing the data folder with this one.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // PostgreSQL's user must reach its folder below
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil { //nolint:gosec // a descriptor
		return nil, errors.Join(fmt.Errorf("another `make run` uses %s", dir), file.Close())
	}
	return func() { file.Close() }, nil //nolint:errcheck // the lock goes with the process anyway
}
