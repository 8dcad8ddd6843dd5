// Package admin is the port on which a service is watched: /livez, /readyz and /metrics.
//
// /livez fails only when the process itself is stuck, never because something it needs is
// away: a restart would not bring PostgreSQL back. /readyz fails while the service can't do
// its work, and names what is missing.
package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// checkTimeout bounds one probe's answer (a frozen database must not hang the probe).
const checkTimeout = 2 * time.Second

// Check reports why something does not work, or nil. It ends when its context does.
type Check func(context.Context) error

// Server collects checks and metrics while a service is wired and serves them in [Server.Run].
type Server struct {
	registry *prometheus.Registry
	draining atomic.Bool

	mu    sync.Mutex
	live  []named
	ready []named
}

type named struct {
	name  string
	check Check
}

// New returns a server that is live and ready, with Go's and the process's own metrics.
func New() *Server {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &Server{registry: registry}
}

// Metrics is where a service registers what it counts.
func (s *Server) Metrics() *prometheus.Registry { return s.registry }

// Live adds a check whose failure means: restart me.
func (s *Server) Live(name string, check Check) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = append(s.live, named{name, check})
}

// Ready adds a check whose failure means: send me no work now.
func (s *Server) Ready(name string, check Check) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = append(s.ready, named{name, check})
}

// Drain makes /readyz fail from now on: the service is stopping.
func (s *Server) Drain() { s.draining.Store(true) }

// Handler serves the three routes.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		checks := s.live
		s.mu.Unlock()
		answer(w, r, checks)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			http.Error(w, "stopping", http.StatusServiceUnavailable)
			return
		}
		s.mu.Lock()
		checks := s.ready
		s.mu.Unlock()
		answer(w, r, checks)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{Timeout: 10 * time.Second}))
	return mux
}

// answer runs the checks side by side and answers 200, or 503 with what fails.
func answer(w http.ResponseWriter, r *http.Request, checks []named) {
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	faults := make(chan error, len(checks))
	for _, c := range checks {
		go func() {
			if err := c.check(ctx); err != nil {
				faults <- fmt.Errorf("%s: %w", c.name, err)
				return
			}
			faults <- nil
		}()
	}
	var all []error
	for range checks {
		select {
		case err := <-faults:
			all = append(all, err)
		case <-ctx.Done(): // a check that overruns ends by itself and is not waited for
			all = append(all, errors.New("a check did not answer in time"))
		}
	}
	if err := errors.Join(all...); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// Run serves on addr until ctx ends. The port stays open while a service finishes what is
// in hand, so give it a context that ends last.
func (s *Server) Run(ctx context.Context, addr string, log *zap.Logger) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on ADMIN_ADDR: %w", err)
	}
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 15 * time.Second, ErrorLog: zap.NewStdLog(log)}
	stopped := context.AfterFunc(ctx, func() { server.Close() }) //nolint:errcheck // probes in flight may break
	defer stopped()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve admin port: %w", err)
	}
	return nil
}
