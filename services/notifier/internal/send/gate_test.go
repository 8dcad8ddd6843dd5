package send_test

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

// gate is a way to PostgreSQL that can be cut.
type gate struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

// gated puts a gate between the stage's log and PostgreSQL.
func (s *stage) gated() *gate {
	s.t.Helper()
	g := &gate{}
	config, err := pgxpool.ParseConfig(s.db.URL("slotwise_notifier"))
	if err != nil {
		s.t.Fatal(err)
	}
	config.MaxConns = 4
	config.ConnConfig.DialFunc = g.dial
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(s.t.Context()), config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(pool.Close)
	s.log, s.way = sendlog.New(pool, s.times), g
	return g
}

func (g *gate) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cut {
		return nil, errors.New("PostgreSQL is away")
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, addr)
	if err == nil {
		g.conns = append(g.conns, conn)
	}
	return conn, err
}

// shut closes all connections and lets none be opened.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut = true
	for _, conn := range g.conns {
		_ = conn.Close()
	}
	g.conns = nil
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut = false
}
