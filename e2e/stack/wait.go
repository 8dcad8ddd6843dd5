package stack

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// waitFor polls check until it passes or ctx ends, 30 s at most.
func waitFor(ctx context.Context, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func dials(ctx context.Context, addr string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err //nolint:wrapcheck // waitFor says what
	}
	return conn.Close() //nolint:wrapcheck // the same
}

// probe asks a service whether it is ready.
func (s *Stack) probe(ctx context.Context, service string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.AdminURL(service)+"/readyz", http.NoBody)
	if err != nil {
		return err //nolint:wrapcheck // waitFor says what
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err //nolint:wrapcheck // the same
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil {
		return err //nolint:wrapcheck // the same
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", strings.TrimSpace(string(body)))
	}
	return nil
}

// once runs the program to its end.
func (p *Process) once(ctx context.Context) error {
	p.keep = false
	if err := p.Start(); err != nil {
		return err
	}
	p.mu.Lock()
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	if cmd == nil {
		return nil
	}
	select {
	case <-ended:
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", p.Name, p.Kill())
	}
	if !cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %s", p.Name, cmd.ProcessState)
	}
	return nil
}

// lazyConf copies nats.conf into dir without its sync to disk, which tests don't wait for.
func lazyConf(conf, dir string) (string, error) {
	text, err := os.ReadFile(conf) //nolint:gosec // a file of ours
	if err != nil {
		return "", fmt.Errorf("read nats.conf: %w", err)
	}
	lazy := strings.Replace(string(text), "sync_interval: always", "", 1)
	file := filepath.Join(dir, "nats.conf")
	if err := os.WriteFile(file, []byte(lazy), 0o600); err != nil {
		return "", fmt.Errorf("write nats.conf: %w", err)
	}
	return file, nil
}
