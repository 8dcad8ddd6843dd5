package hooktest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/testkit/ca"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/zap"
)

// Options say what server is wanted. The zero value speaks plain HTTP and keeps what it reads.
type Options struct {
	TLS  bool   // HTTPS, HTTP/2 too
	Host string // in URLs and in the certificate; by default 127.0.0.1, where the server listens in any case
	NoOp bool   // counts requests without keeping them, for benchmarks
}

// Server is a receiver on 127.0.0.1. All methods are safe for concurrent use.
type Server struct {
	tb     testing.TB
	o      Options
	addr   string
	pool   *x509.CertPool
	caFile string
	server *http.Server
	ending chan struct{} // closed at the end: faults wait no longer

	mu       sync.Mutex
	rules    []*rule
	requests []Request
	counts   map[string]int // by path
	conns    int
}

// Request is one that was read.
type Request struct {
	Method, Path string
	Proto        string
	Header       http.Header
	Body         []byte
	At           time.Time
}

// ID is the request's webhook-id.
func (r Request) ID() string { return r.Header.Get("Webhook-Id") }

// Verify checks the signature by a secret, and that the time is about now.
func (r Request) Verify(secret string) error {
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return fmt.Errorf("hooktest: %w", err)
	}
	return hook.Verify(r.Body, r.Header) //nolint:wrapcheck // the library's judgement
}

// New starts a server that ends with tb.
func New(tb testing.TB, o Options) *Server {
	tb.Helper()
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	s := &Server{tb: tb, o: o, counts: map[string]int{}, ending: make(chan struct{})}
	s.server = &http.Server{
		Handler: s, ReadHeaderTimeout: time.Minute, ErrorLog: zap.NewStdLog(zap.NewNop()),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				s.mu.Lock()
				s.conns++
				s.mu.Unlock()
			}
		},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a loopback socket
	if err != nil {
		tb.Fatalf("hooktest: %v", err)
	}
	s.addr = listener.Addr().String()
	serve := s.server.Serve
	if o.TLS {
		s.certify()
		serve = func(l net.Listener) error { return s.server.ServeTLS(l, "", "") }
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := serve(listener); !errors.Is(err, http.ErrServerClosed) {
			tb.Errorf("hooktest: %v", err)
		}
	})
	tb.Cleanup(func() {
		close(s.ending)
		_ = s.server.Close()
		running.Wait()
	})
	return s
}

func (s *Server) certify() {
	s.tb.Helper()
	authority, err := ca.New()
	if err != nil {
		s.tb.Fatalf("hooktest: %v", err)
	}
	cert, err := authority.Issue(s.o.Host)
	if err != nil {
		s.tb.Fatalf("hooktest: %v", err)
	}
	s.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	s.pool, s.caFile = authority.Pool(), filepath.Join(s.tb.TempDir(), "ca.pem")
	if err := os.WriteFile(s.caFile, authority.PEM(), 0o600); err != nil {
		s.tb.Fatalf("hooktest: %v", err)
	}
}

// URL is an endpoint's URL on this server; each path is counted by itself.
func (s *Server) URL(path string) string {
	scheme := "http://"
	if s.o.TLS {
		scheme = "https://"
	}
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		s.tb.Fatalf("hooktest: %v", err)
	}
	return scheme + net.JoinHostPort(s.o.Host, port) + path
}

// Addr is where the server listens.
func (s *Server) Addr() string { return s.addr }

// Pool trusts the server's authority and no other; nil without TLS.
func (s *Server) Pool() *x509.CertPool { return s.pool }

// CAFile is a PEM file with the server's authority; empty without TLS.
func (s *Server) CAFile() string { return s.caFile }

// Requests returns what was read, in that order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Count is how many requests to path were read; "" counts all.
func (s *Server) Count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if path != "" {
		return s.counts[path]
	}
	all := 0
	for _, n := range s.counts {
		all += n
	}
	return all
}

// Conns is how many connections were accepted.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// Wait returns the requests once there are n at least; tb fails when there are not within timeout.
func (s *Server) Wait(n int, timeout time.Duration) []Request {
	s.tb.Helper()
	for deadline := time.Now().Add(timeout); s.Count("") < n; time.Sleep(2 * time.Millisecond) { //nolint:forbidigo // polls
		if time.Now().After(deadline) {
			s.tb.Fatalf("hooktest: %d requests within %s, not %d", s.Count(""), timeout, n)
		}
	}
	return s.Requests()
}

// ServeHTTP reads a request, keeps it, and answers 204 or as a fault says.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		return // the sender has gone
	}
	got := Request{Method: r.Method, Path: r.URL.Path, Proto: r.Proto, Header: r.Header.Clone(), Body: body, At: time.Now()}
	fault := s.keep(got)
	fault.answer(w, r, s.ending)
}

// keep counts a request and returns the fault for it; the zero Fault is a good answer.
func (s *Server) keep(r Request) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[r.Path]++
	if !s.o.NoOp {
		s.requests = append(s.requests, r)
	}
	for _, rule := range s.rules {
		if rule.hit(r) {
			return rule.Fault
		}
	}
	return Fault{}
}
