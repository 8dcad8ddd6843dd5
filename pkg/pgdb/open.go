// Package pgdb is how a service reaches PostgreSQL: a pool that needs no server to start,
// transactions that are bounded in time and retried where PostgreSQL asks for it, and
// numbered migrations.
//
// Nobody waits for PostgreSQL for ever: each transaction has a context of [TxTimeout], and
// the roles' own timeouts (deploy/postgres/roles.sql) end what a frozen client left open.
package pgdb

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/pkg/admin"
	"github.com/slotwise/slotwise/pkg/config"
)

// Settings say which server to use, and how.
type Settings struct {
	URL      *url.URL
	ExecMode pgx.QueryExecMode // 0: cache_statement, or cache_describe when there is a pooler
	Pool     int               // most connections
	Service  string
}

// execModes lacks pgx's describe_exec: it prepares in one round trip and runs in the next,
// which a pooler may tear apart.
var execModes = map[string]pgx.QueryExecMode{
	"auto":            0,
	"cache_statement": pgx.QueryExecModeCacheStatement,
	"cache_describe":  pgx.QueryExecModeCacheDescribe,
	"exec":            pgx.QueryExecModeExec,
	"simple_protocol": pgx.QueryExecModeSimpleProtocol,
}

// Read reads DATABASE_URL, DATABASE_EXEC_MODE and DATABASE_POOL (by default pool).
func Read(env *config.Reader, service string, pool int) Settings {
	return Settings{
		Service: service,
		URL:     env.URL("DATABASE_URL", "", "PostgreSQL, as postgres://user:password@host/database", "postgres", "postgresql"),
		ExecMode: execModes[env.Choice("DATABASE_EXEC_MODE", "how statements are sent; auto prepares them (cache_statement) unless there is a pooler in between (then cache_describe)",
			"auto", "cache_statement", "cache_describe", "exec", "simple_protocol")],
		Pool: env.Int("DATABASE_POOL", pool, 2, 1000, "most connections to PostgreSQL"),
	}
}

// Open returns a pool at once, whether the server is there or not, and registers with watch
// (which may be nil) the pool's readiness and its metrics. Close the pool when done.
func Open(ctx context.Context, s Settings, watch *admin.Server) (*pgxpool.Pool, error) {
	settings, err := pgxpool.ParseConfig(s.URL.String())
	if err != nil { // pgx's own words may repeat the password
		return nil, errors.New("DATABASE_URL is not understood: check its host, port and parameters")
	}
	settings.MaxConns = int32(s.Pool) //nolint:gosec // read from 2 to 1000
	settings.MaxConnIdleTime = 5 * time.Minute
	settings.MaxConnLifetime = time.Hour
	settings.MaxConnLifetimeJitter = 10 * time.Minute
	settings.ConnConfig.ConnectTimeout = 5 * time.Second
	if s.ExecMode == 0 {
		settings.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
		settings.BeforeConnect = new(route).choose
	} else {
		settings.ConnConfig.DefaultQueryExecMode = s.ExecMode
	}
	settings.ConnConfig.RuntimeParams["application_name"] = "slotwise-" + s.Service
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, errors.New("DATABASE_URL is not usable")
	}
	if watch != nil {
		watch.Ready("postgres", pool.Ping)
		watch.Metrics().MustRegister(poolMetrics{pool})
	}
	return pool, nil
}

// OpenURL is [Open] for a program that needs one connection for a while, such as a migration.
// It keeps nothing in the session, so that a pooler may stand in between.
func OpenURL(ctx context.Context, u *url.URL) (*pgx.Conn, error) {
	settings, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, errors.New("DATABASE_URL is not understood: check its host, port and parameters")
	}
	settings.ConnectTimeout = 5 * time.Second
	settings.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	return conn, nil
}
