package pooler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/testkit/daemon"
)

// startTimeout bounds a start, the package's installation included.
const startTimeout = 5 * time.Minute

// Pooler is a running PgBouncer.
type Pooler struct {
	addr    string
	log     string // the file
	process *daemon.Process
	direct  func(role string) string
}

// Database tells how a role reaches the server itself, as dbtest's do.
type Database interface {
	URL(role string) string
}

// New starts a pooler in front of db that lets these roles in. It ends with tb; its log is
// shown when tb fails.
func New(tb testing.TB, db Database, roles ...string) *Pooler {
	tb.Helper()
	urls := make([]string, 0, len(roles))
	for _, role := range roles {
		urls = append(urls, db.URL(role))
	}
	p, err := Start(tb.Context(), urls...)
	if err != nil {
		tb.Fatalf("pooler: %v", err)
	}
	p.direct = db.URL
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("PgBouncer's log:\n%s", p.tail())
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 10*time.Second)
		defer cancel()
		if err := p.process.Stop(ctx); err != nil {
			tb.Errorf("pooler: %v", err)
		}
	})
	return p
}

// Start starts a pooler in front of the one server of these URLs, for all of its databases and
// for the users that the URLs name, with their passwords. It ends with this process.
func Start(ctx context.Context, urls ...string) (*Pooler, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	program, err := daemon.Find(ctx, os.Stderr, "pgbouncer", "pgbouncer")
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		p, err := start(ctx, program, urls)
		if err == nil || try == 3 || !strings.Contains(err.Error(), "in use") {
			return p, err
		} // else somebody took the free port in between
	}
}

func start(ctx context.Context, program string, urls []string) (*Pooler, error) {
	user, err := daemon.NotRoot()
	if err != nil {
		return nil, fmt.Errorf("PgBouncer refuses root: %w", err)
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "slotwise-pooler-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	p := &Pooler{addr: addr, log: filepath.Join(dir, "log")}
	if err := p.run(ctx, program, dir, user, urls); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

func (p *Pooler) run(ctx context.Context, program, dir string, user daemon.User, urls []string) error {
	config, err := writeConfig(dir, p.addr, urls)
	if err != nil {
		return err
	}
	log, err := os.Create(p.log)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer log.Close() //nolint:errcheck // the pooler writes it
	for _, path := range []string{dir, config, filepath.Join(dir, usersFile)} {
		if err := user.Own(path); err != nil {
			return err
		}
	}
	p.process, err = daemon.Start(daemon.Command{Args: []string{program, config}, User: user, Signal: "TERM", Remove: dir, Out: log})
	if err != nil {
		return err
	}
	if err := p.waitReady(ctx, log); err != nil {
		return errors.Join(err, p.process.Stop(context.WithoutCancel(ctx)))
	}
	return nil
}

// waitReady returns once the pooler takes connections.
func (p *Pooler) waitReady(ctx context.Context, log *os.File) error {
	for {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", p.addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.process.Done(): // it has removed its folder
			return fmt.Errorf("PgBouncer ended:\n%s", tailOf(log))
		case <-ctx.Done():
			return fmt.Errorf("PgBouncer does not answer: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Addr is the pooler's host:port.
func (p *Pooler) Addr() string { return p.addr }

// URL is how the role reaches its database through the pooler. Only for those of [New].
func (p *Pooler) URL(role string) string { return p.Through(p.direct(role)) }

// Through is the URL with the pooler instead of its server.
func (p *Pooler) Through(direct string) string {
	u, err := url.Parse(direct)
	if err != nil {
		return "" // Start has parsed it
	}
	u.Host, u.RawQuery = p.addr, "sslmode=disable" // what the direct way asks for stays behind
	return u.String()
}

func (p *Pooler) tail() string {
	log, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer log.Close() //nolint:errcheck // only read
	return tailOf(log)
}

// freeAddr returns a port on 127.0.0.1 that nobody listens on at the moment.
func freeAddr(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
