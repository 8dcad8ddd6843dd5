// Package web is what our HTTP APIs have in common: a server that stops without breaking a request,
// bodies and conditions as they are read, problem documents, and how often one client may ask.
package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/slotwise/slotwise/pkg/admin"
	"github.com/slotwise/slotwise/pkg/retry"
	"go.uber.org/zap"
)

// Server serves Handler on Addr.
type Server struct {
	Addr    string
	Setting string // the setting that moves Addr, for the error when it is taken
	Handler http.Handler
	Lag     time.Duration // after readiness has failed: until load balancers have noticed
	Grace   time.Duration // for requests that are then in flight
	Watch   *admin.Server // told that the service stops; may be nil
	Log     *zap.Logger
}

// Run serves until ctx ends, then fails readiness, waits Lag, and lets the requests in flight
// finish within Grace. A request that takes longer is broken and is an error.
func (s Server) Run(ctx context.Context) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.Setting, err)
	}
	server := &http.Server{
		Handler:           s.Handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          zap.NewStdLog(s.Log),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", s.Addr, err)
	case <-ctx.Done():
	}
	return errors.Join(s.drain(ctx, server), ignoreClosed(<-failed))
}

func (s Server) drain(ctx context.Context, server *http.Server) error {
	ctx = context.WithoutCancel(ctx)
	if s.Watch != nil {
		s.Watch.Drain()
	}
	if err := retry.Sleep(ctx, s.Lag); err != nil {
		return fmt.Errorf("wait for load balancers: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.Grace)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("finish requests on %s: %w", s.Addr, err), server.Close())
	}
	return nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
