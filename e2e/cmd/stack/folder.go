package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/slotwise/slotwise/e2e/stack"
)

// empty removes all that is in the folder but the lock, which its caller holds.
func empty(dir string) error {
	all, err := os.ReadDir(dir)
	if err != nil {
		return err //nolint:wrapcheck // it says what
	}
	var errs []error
	for _, entry := range all {
		if entry.Name() != lockFile {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	return errors.Join(errs...)
}

// own reports a given URL that is this folder's own, from its file env, when nobody answers
// there: the shell has exported what an earlier run wrote.
func own(ctx context.Context, c stack.Config) error {
	text, err := os.ReadFile(filepath.Join(c.Dir, "env"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what the last run wrote: %w", err)
	}
	var errs []error
	for _, given := range [][2]string{{"NATS_URL", c.NATSURL}, {"DATABASE_URL", c.DatabaseURL}} {
		name, value := given[0], given[1]
		line := fmt.Sprintf("%s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
		if value != "" && strings.Contains("\n"+string(text), "\n"+line) && !answers(ctx, value) {
			errs = append(errs, fmt.Errorf("%s is what an earlier `make run` wrote, and nobody answers there: unset %s to have one started", name, name))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("%w:\n%w", errSettings, errors.Join(errs...))
	}
	return nil
}

// answers reports whether somebody listens where the URL says.
func answers(ctx context.Context, server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"nats": "4222", "tls": "4222"}[u.Scheme]
	}
	if port == "" {
		port = "5432"
	}
	dialer := net.Dialer{Timeout: 2 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
