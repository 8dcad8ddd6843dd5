package mailtest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/testkit/ca"
	"github.com/slotwise/slotwise/testkit/letter"
)

// Options say what server is wanted. The zero value offers STARTTLS and wants no AUTH.
type Options struct {
	// TLS from the first byte (smtps) instead of STARTTLS.
	TLS bool
	// NoSTARTTLS leaves STARTTLS out of the answer to EHLO.
	NoSTARTTLS bool
	// User and Password that AUTH asks for; without them AUTH is not offered.
	User, Password string
	// MaxConns refuses more connections at once with 421. 0: no limit.
	MaxConns int
	// Idle closes a connection that sends no command for so long, after a 421. 0: never.
	Idle time.Duration
	// MaxSize of a message in bytes; larger ones get 552. Default 10 MiB.
	MaxSize int
	// NoOp counts messages without keeping or checking them, for benchmarks.
	NoOp bool
}

// Server is an SMTP server on 127.0.0.1. All methods are safe for concurrent use.
type Server struct {
	tb     testing.TB
	o      Options
	tls    *tls.Config
	pool   *x509.CertPool
	caFile string
	addr   string

	mu       sync.Mutex
	listener net.Listener // nil while stopped
	stopping chan struct{}
	conns    map[net.Conn]bool
	rules    []*rule
	messages []Message
	counts   Counts

	running sync.WaitGroup // the accept loop and the dialogues
}

// Counts is what has come in so far. A command counts when it arrives, whatever is answered.
type Counts struct {
	Conns   int // connections that were let in
	Open    int // of them now
	Refused int // connections above MaxConns
	EHLO, STARTTLS, AUTH, MAIL, RCPT, DATA, Dots,
	RSET, NOOP, QUIT int
	Accepted int // messages
}

// Message is an accepted message.
type Message struct {
	From string   // envelope sender
	To   []string // envelope recipients
	Raw  []byte   // with CRLF, dots unstuffed
	At   time.Time
	Conn int    // number of its connection, from 1
	TLS  bool   // it came encrypted
	User string // who was authenticated
	letter.Letter
}

// New starts a server that ends with tb.
func New(tb testing.TB, o Options) *Server {
	tb.Helper()
	if o.MaxSize == 0 {
		o.MaxSize = 10 << 20
	}
	authority, err := ca.New()
	if err != nil {
		tb.Fatalf("mailtest: %v", err)
	}
	cert, err := authority.Issue("localhost", "127.0.0.1")
	if err != nil {
		tb.Fatalf("mailtest: %v", err)
	}
	s := &Server{
		tb: tb, o: o, addr: "127.0.0.1:0", pool: authority.Pool(), conns: map[net.Conn]bool{},
		tls:    &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		caFile: filepath.Join(tb.TempDir(), "ca.pem"),
	}
	if err := os.WriteFile(s.caFile, authority.PEM(), 0o600); err != nil {
		tb.Fatalf("mailtest: %v", err)
	}
	s.Start()
	tb.Cleanup(s.Stop)
	return s
}

// Addr is the server's host:port. It stays the same over Stop and Start.
func (s *Server) Addr() string { return s.addr }

// URL is what SMTP_URL wants: smtp:// or smtps://, with user and password if AUTH is asked for.
func (s *Server) URL() string {
	u := url.URL{Scheme: "smtp", Host: s.addr}
	if s.o.TLS {
		u.Scheme = "smtps"
	}
	if s.o.User != "" {
		u.User = url.UserPassword(s.o.User, s.o.Password)
	}
	return u.String()
}

// CAFile is a PEM file with the authority that signed the server's certificate.
func (s *Server) CAFile() string { return s.caFile }

// Pool trusts the server's authority and no other.
func (s *Server) Pool() *x509.CertPool { return s.pool }

// Script replaces all faults. Of those that fit a command, the first counts.
func (s *Server) Script(faults ...Fault) {
	rules := make([]*rule, len(faults))
	for i, f := range faults {
		rules[i] = &rule{Fault: f}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = rules
}

// Counts returns what has come in so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Messages returns the accepted messages, in the order of their acceptance.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.messages)
}

// Forget drops the accepted messages; the counts stay.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = nil
}

// Wait returns the messages once there are n at least; tb fails when there are not within timeout.
func (s *Server) Wait(n int, timeout time.Duration) []Message {
	s.tb.Helper()
	s.WaitCounts(fmt.Sprintf("%d messages", n), timeout, func(c Counts) bool { return c.Accepted >= n })
	return s.Messages()
}

// WaitCounts returns once is holds; tb fails, telling what was waited for, when it does not
// within timeout.
func (s *Server) WaitCounts(what string, timeout time.Duration, is func(Counts) bool) {
	s.tb.Helper()
	for deadline := time.Now().Add(timeout); !is(s.Counts()); time.Sleep(2 * time.Millisecond) { //nolint:forbidigo // polls
		if time.Now().After(deadline) {
			s.tb.Fatalf("mailtest: no %s within %s: %+v", what, timeout, s.Counts())
		}
	}
}

// find returns the fault for a command; the zero Fault is a good answer.
func (s *Server) find(c Command) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rules {
		if r.hit(c) {
			return r.Fault
		}
	}
	return Fault{}
}

func (s *Server) count(add func(*Counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add(&s.counts)
}

// accept keeps a message.
func (s *Server) accept(m Message) {
	if !s.o.NoOp {
		m.Letter, _ = letter.Parse(m.Raw) // what can be read of it
		m.Raw = bytes.Clone(m.Raw)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Accepted++
	if !s.o.NoOp {
		s.messages = append(s.messages, m)
	}
}
