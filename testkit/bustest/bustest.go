// Package bustest runs a real nats-server in the test's process, with the repository's own
// deploy/nats/nats.conf: the same users, permissions and pings as in production.
//
//	bus := bustest.New(t)
//	js := bus.JetStream("topology") // as that user, with that user's rights
//
// TEST_NATS_IMAGE makes it a Docker container of that image, through ory/dockertest: the same
// test, the same file, another server. Only a server that is changed by [Change] stays in the
// process, because no image can be told so.
//
// Each server has its own keys, port and store. The port and the store stay over Stop and
// Start, so that clients reconnect to it; Wipe loses the store. A kill -9 and a freeze need a
// process: e2e/stack has them.
//
// Acknowledged means written, not fsynced, unless SyncAlways is given: tests kill processes,
// they do not cut the power.
package bustest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slotwise/slotwise/testkit/checkout"
	"github.com/slotwise/slotwise/testkit/natskeys"
)

// Admin is a user of tests only, who may do everything in the account of Slotwise.
const Admin = "admin"

const (
	readyTimeout = 30 * time.Second
	stopTimeout  = 30 * time.Second
)

// Option changes a server before its first start.
type Option func(*Server)

// SyncAlways keeps nats.conf's `sync_interval: always`: a publish is acknowledged after fsync.
func SyncAlways() Option { return func(s *Server) { s.syncAlways = true } }

// LogAlways shows the server's log even when the test passes.
func LogAlways() Option { return func(s *Server) { s.log.always = true } }

// Change lets a test set what nats.conf does not: a short ping interval, a small store.
func Change(change func(*server.Options)) Option {
	return func(s *Server) { s.changes = append(s.changes, change) }
}

// Server is one nats-server. Its methods are for the test's own goroutine, but URL, SeedFile,
// Connect and JetStream are for all.
type Server struct {
	tb         testing.TB
	keys       natskeys.Set
	config     string // the file
	store      string // JetStream's folder
	port       int    // -1 before the first start
	syncAlways bool
	changes    []func(*server.Options)
	image      string // of the container; "": in this process
	log        *log
	running    running
}

// running is a started server.
type running interface {
	// stop ends it cleanly and waits for that.
	stop(ctx context.Context) error
}

// New starts a server that ends with tb. Its log is shown when tb fails.
func New(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	dir := tb.TempDir()
	s := &Server{tb: tb, store: filepath.Join(dir, "store"), config: filepath.Join(dir, "nats.conf"), port: -1, log: &log{}}
	for _, opt := range opts {
		opt(s)
	}
	if len(s.changes) == 0 {
		s.image = os.Getenv("TEST_NATS_IMAGE")
	}
	var err error
	if s.keys, err = natskeys.Ensure(filepath.Join(dir, "keys"), append(natskeys.Users(), Admin)...); err != nil {
		tb.Fatalf("nats-server: %v", err)
	}
	if err := s.writeConfig(); err != nil {
		tb.Fatalf("nats-server: %v", err)
	}
	s.Start()
	tb.Cleanup(func() {
		s.Stop()
		s.log.show(tb)
	})
	return s
}

// writeConfig writes nats.conf with the public keys that it refers to above it, the user of
// tests among the others, and without its sync to disk unless that is wanted.
func (s *Server) writeConfig() error {
	root, err := checkout.Root()
	if err != nil {
		return err
	}
	content, err := os.ReadFile(filepath.Join(root, "deploy", "nats", "nats.conf"))
	if err != nil {
		return fmt.Errorf("read nats.conf: %w", err)
	}
	text, err := replace(string(content), "users: [", "users: [\n      { nkey: $"+natskeys.Variable(Admin)+" }\n")
	if err == nil && !s.syncAlways {
		text, err = replace(text, "sync_interval: always", "")
	}
	if err != nil {
		return err
	}
	var variables strings.Builder
	for _, user := range append(natskeys.Users(), Admin) {
		name := natskeys.Variable(user)
		if strings.Contains(text, "$"+name) { // one that is not used is refused
			fmt.Fprintf(&variables, "%s: %s\n", name, s.keys.Public(user))
		}
	}
	if err := os.WriteFile(s.config, []byte(variables.String()+text), 0o644); err != nil { //nolint:gosec // a container's user reads it; public keys
		return fmt.Errorf("write nats.conf: %w", err)
	}
	return nil
}

// replace replaces the one place in nats.conf that has these words.
func replace(text, words, by string) (string, error) {
	if strings.Count(text, words) != 1 {
		return "", fmt.Errorf("nats.conf has %q %d times, wanted once", words, strings.Count(text, words))
	}
	return strings.Replace(text, words, by, 1), nil
}

// Start starts the server again after Stop, on the same port, with the same store.
func (s *Server) Start() {
	s.tb.Helper()
	if s.running != nil {
		s.tb.Fatal("nats-server: started twice")
	}
	start := s.startHere
	if s.image != "" {
		start = s.startContainer
	}
	if err := start(); err != nil {
		s.tb.Fatalf("nats-server: %v", err)
	}
}

// startHere starts it in this process.
func (s *Server) startHere() error {
	o, err := server.ProcessConfigFile(s.config)
	if err != nil {
		return fmt.Errorf("read nats.conf: %w", err)
	}
	o.Host, o.Port, o.StoreDir = "127.0.0.1", s.port, s.store
	o.NoSigs = true
	for _, change := range s.changes {
		change(o)
	}
	ns, err := server.NewServer(o)
	if err != nil {
		return err
	}
	ns.SetLoggerV2(s.log, false, false, false)
	ns.Start()
	s.running = inProcess{ns}
	if !ns.ReadyForConnections(readyTimeout) {
		return fmt.Errorf("not ready after %s", readyTimeout)
	}
	tcp, ok := ns.Addr().(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("address %v", ns.Addr())
	}
	s.listensOn(tcp.Port)
	return nil
}

// listensOn keeps the port of the first start, which is that of the others too: clients in
// other goroutines read it.
func (s *Server) listensOn(port int) {
	if s.port < 0 {
		s.port = port
	}
}

// inProcess is a server in this process.
type inProcess struct{ server *server.Server }

func (p inProcess) stop(context.Context) error {
	p.server.Shutdown()
	p.server.WaitForShutdown()
	return nil
}

// Stop ends the server, if it runs, and waits for it: connections are cut, the store stays.
func (s *Server) Stop() {
	if s.running == nil {
		return
	}
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.tb.Context()), stopTimeout)
	defer cancel()
	if err := s.running.stop(ctx); err != nil {
		s.tb.Errorf("nats-server: %v", err)
	}
	s.running = nil
}

// Wipe loses everything that JetStream knew: streams, consumers, messages. The server is
// started again.
func (s *Server) Wipe() {
	s.tb.Helper()
	s.Stop()
	if err := os.RemoveAll(s.store); err != nil {
		s.tb.Fatalf("nats-server: wipe the store: %v", err)
	}
	s.Start()
}

// URL is the server's, without a user; it stays the same over restarts.
func (s *Server) URL() string { return "nats://" + s.Addr() }

// Addr is the server's host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// SeedFile is the file with the nkey seed of user: what NATS_NKEY_FILE names.
func (s *Server) SeedFile(user string) string { return s.keys.SeedFile(user) }

// Connect returns a new connection of user, with the user's inbox prefix; it ends with the
// test. A denied permission or a lost message on it is told in the test's log.
func (s *Server) Connect(user string, opts ...nats.Option) *nats.Conn {
	s.tb.Helper()
	nkey, err := nats.NkeyOptionFromSeed(s.SeedFile(user))
	if err != nil {
		s.tb.Fatalf("nats: user %s: %v", user, err)
	}
	defaults := []nats.Option{
		nkey, nats.Name(user), nats.CustomInboxPrefix("_INBOX_" + user),
		nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			s.log.Errorf("client %s: %v", user, err)
		}),
	}
	nc, err := nats.Connect(s.URL(), append(defaults, opts...)...)
	if err != nil {
		s.tb.Fatalf("nats: connect as %s: %v", user, err)
	}
	s.tb.Cleanup(nc.Close)
	return nc
}

// JetStream is a new connection's JetStream: see [Server.Connect].
func (s *Server) JetStream(user string, opts ...jetstream.JetStreamOpt) jetstream.JetStream {
	s.tb.Helper()
	js, err := jetstream.New(s.Connect(user), opts...)
	if err != nil {
		s.tb.Fatalf("nats: JetStream: %v", err)
	}
	return js
}

// Messages returns how many messages a stream holds, 0 when there is no such stream.
func (s *Server) Messages(ctx context.Context, stream string) uint64 {
	s.tb.Helper()
	js := s.JetStream(Admin)
	defer js.Conn().Close()
	info, err := js.Stream(ctx, stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return 0
	case err != nil:
		s.tb.Fatalf("nats: stream %s: %v", stream, err)
	}
	return info.CachedInfo().State.Msgs
}
