package stack

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/slotwise/slotwise/testkit/natskeys"
)

// Services are the four services, in the order in which they are listed everywhere.
var Services = []string{"booking", "relay", "notifier", "scheduler"}

// Stack is a running Slotwise.
type Stack struct {
	config Config
	lines  *lines
	db     *database
	keys   natskeys.Set
	key    string // see APIKey

	linkKeys string // of the links in customers' mails

	mu    sync.RWMutex      // copies are added while others look
	admin map[string]string // address of a service's admin port, by its name or its copy's
	front map[string]string // address of booking's API and of the notifier's endpoint, the same
	parts map[string]*Process
	order []string // of parts, as started
}

// Start starts everything and returns when all of it is ready, or with what kept it from that;
// nothing runs then. The context bounds the start only.
func Start(ctx context.Context, c Config) (*Stack, error) {
	if err := c.settle(ctx); err != nil {
		return nil, err
	}
	s := &Stack{
		config: c, lines: &lines{to: c.Out}, admin: map[string]string{}, parts: map[string]*Process{},
		front: map[string]string{"booking": c.addr(c.HTTP), "notifier": c.addr(c.Notifier)},
	}
	if err := s.start(ctx); err != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return nil, errors.Join(err, s.Stop(stopping))
	}
	return s, nil
}

func (s *Stack) start(ctx context.Context) error {
	steps := []func(context.Context) error{
		s.startPostgres, s.startNATS, s.startInbox, s.makeLinkKeys, s.migrate, s.ensureKey, s.startTopology, s.startServices, s.Ready,
	}
	if err := os.MkdirAll(s.config.Dir, 0o755); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return s.writeEnv()
}

func (s *Stack) startPostgres(ctx context.Context) (err error) {
	s.db, err = startDatabase(ctx, &s.config)
	if err == nil {
		s.say("PostgreSQL: %s", s.db.server.How)
	}
	return err
}

func (s *Stack) startNATS(ctx context.Context) (err error) {
	if s.keys, err = natskeys.Ensure(filepath.Join(s.config.Dir, "keys"), natskeys.Users()...); err != nil {
		return fmt.Errorf("make nkeys: %w", err)
	}
	if s.config.NATSURL != "" {
		s.say("NATS: the server of NATS_URL; it must know the users of deploy/nats/nats.conf with the public keys %v", s.keys.Env())
		return nil
	}
	conf := filepath.Join(s.config.Root, "deploy", "nats", "nats.conf")
	if !s.config.Sync {
		if conf, err = lazyConf(conf, s.config.Dir); err != nil {
			return err
		}
	}
	err = s.launch("nats", "nats-server", s.keys.Env(),
		"-c", conf, "-sd", filepath.Join(s.config.Dir, "nats"), "-a", s.config.Host, "-p", fmt.Sprint(s.config.NATS))
	if err != nil {
		return err
	}
	return waitFor(ctx, "nats-server", func(ctx context.Context) error { return dials(ctx, s.config.addr(s.config.NATS)) })
}

func (s *Stack) startInbox(ctx context.Context) error {
	if s.config.SMTPURL != "" {
		return nil
	}
	err := s.launch("inbox", "inbox", []string{
		"INBOX_SMTP_ADDR=" + s.config.addr(s.config.SMTP),
		"INBOX_HTTP_ADDR=" + s.config.addr(s.config.Inbox),
		"INBOX_DIR=" + filepath.Join(s.config.Dir, "inbox"),
		"INBOX_CA_FILE=" + s.inboxCA(),
	})
	if err != nil {
		return err
	}
	return waitFor(ctx, "inbox", func(ctx context.Context) error { return dials(ctx, s.config.addr(s.config.SMTP)) })
}

func (s *Stack) inboxCA() string { return filepath.Join(s.config.Dir, "inbox-ca.pem") }

// makeLinkKeys makes the key of customers' links the first time.
func (s *Stack) makeLinkKeys(context.Context) (err error) {
	s.linkKeys, err = kept(s.config.Dir, "link_keys", func() string {
		key := make([]byte, 32)
		rand.Read(key)
		return "1:" + base64.StdEncoding.EncodeToString(key)
	})
	return err
}

// migrate brings both schemas up to date, as their owners.
func (s *Stack) migrate(ctx context.Context) error {
	for service, owner := range map[string]string{"booking": "slotwise_booking_owner", "notifier": "slotwise_notifier_owner"} {
		p := s.process(service+" migrate", service, []string{"DATABASE_URL=" + s.db.url(owner)}, "migrate")
		if err := p.once(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stack) startTopology(context.Context) error {
	return s.launch("topology", "slotwise", s.natsEnv("topology"), "topology", "apply", "--every", "10s")
}

func (s *Stack) startServices(ctx context.Context) error {
	for i, service := range Services {
		port := 0
		if s.config.Admin != 0 {
			port = s.config.Admin + i
		}
		port, err := s.config.free(ctx, port)
		if err != nil {
			return fmt.Errorf("find a port for %s: %w", service, err)
		}
		s.admin[service] = s.config.addr(port)
		if !slices.Contains(s.config.Parts, service) {
			continue
		}
		if err := s.launch(service, service, s.serviceEnv(service, service)); err != nil {
			return err
		}
	}
	return nil
}

// Ready waits until every service says that it is, one minute at most.
func (s *Stack) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, service := range s.config.Parts {
		if err := s.Await(ctx, service); err != nil {
			return err
		}
	}
	return nil
}

// Part returns the process of that name: nats, inbox, topology, a service or a copy of one;
// nil when the stack does not run it.
func (s *Stack) Part(name string) *Process {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.parts[name]
}

// Stop ends everything, the last started first, PostgreSQL last.
func (s *Stack) Stop(ctx context.Context) error {
	var errs []error
	for len(s.order) > 0 {
		last := len(s.order) - 1
		name := s.order[last]
		s.order = s.order[:last]
		if s.admin[name] != "" { // the services together: they don't wait for each other
			errs = append(errs, s.stopServices(ctx, name)...)
			continue
		}
		errs = append(errs, s.parts[name].Stop(ctx))
	}
	if s.db != nil {
		errs = append(errs, s.db.server.Stop(ctx))
		s.db = nil
	}
	s.config.unreserve()
	return errors.Join(errs...)
}

func (s *Stack) stopServices(ctx context.Context, last string) []error {
	names := []string{last}
	for len(s.order) > 0 && s.admin[s.order[len(s.order)-1]] != "" {
		names = append(names, s.order[len(s.order)-1])
		s.order = s.order[:len(s.order)-1]
	}
	ended := make(chan error, len(names))
	for _, name := range names {
		go func() { ended <- s.parts[name].Stop(ctx) }()
	}
	errs := make([]error, 0, len(names))
	for range names {
		errs = append(errs, <-ended)
	}
	return errs
}

func (s *Stack) launch(name, program string, env []string, args ...string) error {
	p := s.process(name, program, env, args...)
	if err := p.Start(); err != nil {
		return err
	}
	s.parts[name] = p
	s.order = append(s.order, name)
	return nil
}

func (s *Stack) process(name, program string, env []string, args ...string) *Process {
	return &Process{
		Name: name, path: filepath.Join(s.config.Bin, program), args: args, env: append(plainEnv(), env...),
		out: s.lines.of(name), keep: s.config.Keep, notice: s.say,
	}
}

// say prints a line of the stack's own.
func (s *Stack) say(format string, args ...any) {
	fmt.Fprintf(s.lines.of("stack"), format+"\n", args...)
}
