package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// oldest is the first major version that we support.
const oldest = 15

// startTimeout bounds one start of a server, initdb, image pull or recovery included.
const startTimeout = 5 * time.Minute

// Options say what server is wanted. The zero value is a temporary one for tests.
type Options struct {
	// URL of an administrator on a server that runs already; nothing is started then.
	URL string
	// Setting is the name of the setting that URL comes from, for the error message.
	// Default TEST_DATABASE_URL.
	Setting string
	// Dir is the data folder, made when missing. Default: a temporary one, in memory where
	// /dev/shm has room, removed at the end.
	Dir string
	// Addr is the host:port to listen on. Default: a free port on 127.0.0.1.
	Addr string
	// Password of the administrator, set when the data folder is made. Everybody who can
	// reach the port is let in without one when it is empty.
	Password string
	// Durable turns fsync and full page writes on. Without it a power cut loses data, a
	// kill -9 does not.
	Durable bool
	// Image asks for Docker with this image. Default: Docker is the third way, with
	// DefaultImage.
	Image string
	// Set has more server settings, e.g. {"max_connections": "20"}.
	Set map[string]string
	// Log receives the server's log and what is worth telling a person about the start.
	// Default: the log goes to a file, whose end is in Start's error.
	Log io.Writer
}

// Server is a PostgreSQL server that answers.
type Server struct {
	// AdminURL is an administrator's, for the database postgres.
	AdminURL string
	// How tells which way was taken, for a person.
	How string

	process
}

// process is what we started; its methods do nothing for a given URL.
type process interface {
	// Done is closed when the server has ended, for whatever reason. Never for a given URL.
	Done() <-chan struct{}
	// Stop ends a server that we started, cleanly, or hard when ctx ends first.
	Stop(ctx context.Context) error
}

// BusyError says that the wanted address is taken; nothing has been started.
type BusyError struct {
	Addr string
	Err  error
}

func (e *BusyError) Error() string { return fmt.Sprintf("address %s is busy: %v", e.Addr, e.Err) }
func (e *BusyError) Unwrap() error { return e.Err }

// errUnavailable wraps the reasons for which a way is not there; any other error ends the search.
var errUnavailable = errors.New("not available")

// Start finds or starts a server as told by o. It returns when the server answers. The context
// bounds the start only. It fails with [*BusyError] when Options.Addr is taken.
func Start(ctx context.Context, o Options) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if o.Setting == "" {
		o.Setting = "TEST_DATABASE_URL"
	}
	if o.URL != "" {
		return given(ctx, o)
	}
	ways := []struct {
		name  string
		start func(context.Context, Options) (*Server, error)
	}{
		{"server binaries on PATH or in " + distributionBins, startBinaries},
		{"Docker", startDocker},
		{"apt-get on Debian or Ubuntu as root", startPackage},
	}
	if o.Image != "" {
		ways = ways[1:2]
	}
	reasons := []string{"  - a running server: " + o.Setting + " is not set"}
	for _, way := range ways {
		s, err := way.start(ctx, o)
		if !errors.Is(err, errUnavailable) {
			return s, err
		}
		reasons = append(reasons, fmt.Sprintf("  - %s: %v", way.name, err))
	}
	return nil, fmt.Errorf("no PostgreSQL >= %d; one of these ways is needed:\n%s", oldest, strings.Join(reasons, "\n"))
}

// given checks a server that somebody else runs.
func given(ctx context.Context, o Options) (*Server, error) {
	config, err := pgx.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("%s is not a PostgreSQL URL (not shown, it may hold a password)", o.Setting)
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	where := net.JoinHostPort(config.Host, fmt.Sprint(config.Port))
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s of %s: %w", where, o.Setting, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var version int
	if err := conn.QueryRow(ctx, `select current_setting('server_version_num')::int / 10000`).Scan(&version); err != nil {
		return nil, fmt.Errorf("ask %s for its version: %w", where, err)
	}
	if version < oldest {
		return nil, fmt.Errorf("%s of %s is PostgreSQL %d: %d or later is needed", where, o.Setting, version, oldest)
	}
	return &Server{AdminURL: o.URL, How: "the server of " + o.Setting + " at " + where, process: foreign{}}, nil
}

// foreign is the process behind a given URL: not ours.
type foreign struct{}

func (foreign) Done() <-chan struct{}      { return nil }
func (foreign) Stop(context.Context) error { return nil }

// checkFree fails with a BusyError unless a server could listen on addr now.
func checkFree(ctx context.Context, addr string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return &BusyError{Addr: addr, Err: err}
	}
	return l.Close()
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

// adminURL is the URL of the administrator of a server that we started at addr.
func adminURL(addr, password string) string {
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: addr, Path: "/postgres", RawQuery: "sslmode=disable"}
	if password != "" {
		u.User = url.UserPassword("postgres", password)
	}
	return u.String()
}

// waitReady returns once the server at url takes a query, or done is closed, or ctx ends.
func waitReady(ctx context.Context, url string, done <-chan struct{}) error {
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		conn, err := pgx.Connect(try, url)
		if err == nil {
			err = conn.Ping(try)
			_ = conn.Close(try) // it has answered, or the error is told
		}
		cancel()
		if err == nil {
			return nil
		}
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(refused.Code, "28") {
			return err // it answers, but not to this password
		}
		select {
		case <-done:
			return errors.New("it ended before it answered")
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w (last: %w)", ctx.Err(), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
