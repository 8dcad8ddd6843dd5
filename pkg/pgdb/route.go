package pgdb

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// route finds out, once for a pool, whether a pooler such as PgBouncer stands before
// PostgreSQL. In transaction mode a statement that was prepared on one server connection is
// missing on the next (SQLSTATE 26000) or there already (42P05), now and then and only under
// load. So behind a pooler statements are described once and then sent whole
// (cache_describe): the same types, one round trip, a little more work for the server.
type route struct{ found atomic.Int32 }

const (
	unknownRoute int32 = iota
	directRoute
	pooledRoute
)

// choose is called before each new connection. While the route is not known it opens one of
// its own to look; its error is that of any failed connection.
func (r *route) choose(ctx context.Context, settings *pgx.ConnConfig) error {
	if r.found.Load() == unknownRoute {
		found, err := look(ctx, settings.Copy())
		if err != nil {
			return err
		}
		r.found.Store(found)
	}
	if r.found.Load() == pooledRoute {
		settings.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return nil
}

// look compares who answered the login with who runs a statement: a pooler gives its clients
// process ids of its own.
func look(ctx context.Context, settings *pgx.ConnConfig) (int32, error) {
	conn, err := pgx.ConnectConfig(ctx, settings)
	if err != nil {
		return unknownRoute, err //nolint:wrapcheck // as the connection itself would fail
	}
	defer conn.Close(ctx)
	var pid uint32
	if err := conn.QueryRow(ctx, `select pg_backend_pid()`, pgx.QueryExecModeExec).Scan(&pid); err != nil {
		return unknownRoute, fmt.Errorf("look for a pooler: %w", err)
	}
	if pid != conn.PgConn().PID() {
		return pooledRoute, nil
	}
	return directRoute, nil
}
