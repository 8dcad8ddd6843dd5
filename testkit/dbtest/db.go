package dbtest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// poolSize is small: many tests share a server.
const poolSize = 4

// DB is the database of one test.
type DB struct {
	Name string
	// Admin is the administrator's pool: it may do everything and has no timeouts.
	Admin *pgxpool.Pool

	server *server
	tb     testing.TB
	mu     sync.Mutex
	pools  map[string]*pgxpool.Pool // by role
}

// New makes a database for tb. It ends with tb, after everything that tb cleans up later.
func New(tb testing.TB) *DB {
	tb.Helper()
	s, err := shared()
	if err != nil {
		tb.Fatalf("test database: %v", err)
	}
	name := fmt.Sprintf("%s%d_%08x", clonePrefix, time.Now().Unix(), rand.Uint32())
	if err := s.clone(tb.Context(), name); err != nil {
		tb.Fatalf("test database: %v", err)
	}
	db := &DB{Name: name, server: s, tb: tb, pools: map[string]*pgxpool.Pool{}}
	tb.Cleanup(db.end)
	db.Admin = db.Pool("")
	return db
}

// Durable fails a benchmark whose server does not sync commits: its figures would say nothing.
// `testdb -durable` starts one that does.
func (db *DB) Durable() {
	db.tb.Helper()
	var fsync string
	if err := db.Admin.QueryRow(db.tb.Context(), `select current_setting('fsync')`).Scan(&fsync); err != nil {
		db.tb.Fatal(err)
	}
	if fsync != "on" {
		db.tb.Fatal("this PostgreSQL does not sync commits: run it below testdb -durable, as make bench does")
	}
}

// URL is for logging in as role, one of deploy/postgres/roles.sql; "" is the administrator.
// With TEST_POOLER roles come through the pooler, the administrator never does.
func (db *DB) URL(role string) string { return db.server.url(db.Name, role) }

func (s *server) url(database, role string) string {
	c := s.admin
	u := url.URL{Scheme: "postgres", User: url.UserPassword(c.User, c.Password), Path: "/" + database}
	u.Host = net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	query := url.Values{}
	if c.TLSConfig == nil {
		query.Set("sslmode", "disable")
	}
	if role == "" {
		u.RawQuery = query.Encode()
		return u.String()
	}
	u.User = url.UserPassword(role, Password)
	mode := os.Getenv("TEST_EXEC_MODE")
	if s.pooler != nil {
		u.Host = s.pooler.Addr()
		query.Set("sslmode", "disable")
		mode = cmp.Or(mode, "cache_describe")
	}
	if mode != "" {
		query.Set("default_query_exec_mode", mode)
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// ExecModes are the ways to send statements that must work: all of pgx's that services offer
// (DATABASE_EXEC_MODE), but cache_statement only where no pooler is in between.
func ExecModes() []pgx.QueryExecMode {
	modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	if os.Getenv("TEST_POOLER") == "" {
		modes = append(modes, pgx.QueryExecModeCacheStatement)
	}
	return modes
}

// Pool returns the test's pool for role, always the same: at most 4 connections, closed at
// the end of the test.
func (db *DB) Pool(role string) *pgxpool.Pool {
	db.tb.Helper()
	db.mu.Lock()
	defer db.mu.Unlock()
	if pool := db.pools[role]; pool != nil {
		return pool
	}
	config, err := pgxpool.ParseConfig(db.URL(role))
	if err != nil {
		db.tb.Fatalf("test database: %v", err)
	}
	config.MaxConns = poolSize
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(db.tb.Context()), config)
	if err != nil {
		db.tb.Fatalf("test database: %v", err)
	}
	db.pools[role] = pool
	return pool
}

// end closes the pools and drops the database, unless the test failed.
func (db *DB) end() {
	db.mu.Lock()
	defer db.mu.Unlock()
	for role, pool := range db.pools {
		db.close(role, pool)
	}
	if db.tb.Failed() {
		db.tb.Logf("the database is kept as long as its server (TEST_DATABASE_URL) lives: %s", db.URL(""))
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := db.server.drop(ctx, db.Name); err != nil {
		db.tb.Errorf("test database: %v", err)
	}
}

// close closes a pool; that waits for connections in use, of which there should be none.
func (db *DB) close(role string, pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(closeWait):
		db.tb.Errorf("test database: %d connections of %q were not given back within %s", pool.Stat().AcquiredConns(), role, closeWait)
	}
}

const closeWait = 5 * time.Second

const clonePrefix = "slotwise_test_"

// clone makes a database from the template, with the template's rights, which PostgreSQL
// does not copy.
func (s *server) clone(ctx context.Context, name string) error {
	maintenance := s.admin.Database
	return s.in(ctx, maintenance, "", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `create database `+pgx.Identifier{name}.Sanitize()+
			` template `+pgx.Identifier{s.template}.Sanitize()+` strategy file_copy`)
		if err != nil {
			return fmt.Errorf("clone %s: %w", s.template, err)
		}
		rows, _ := conn.Query(ctx, `
			select format('grant %s on database %I to %s', a.privilege_type, $1::text,
			              case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end)
			  from pg_database, aclexplode(datacl) a
			 where datname = $2`, name, s.template)
		grants, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("read the rights on %s: %w", s.template, err)
		}
		batch := &pgx.Batch{}
		for _, grant := range grants {
			batch.Queue(grant)
		}
		if err := conn.SendBatch(ctx, batch).Close(); err != nil {
			return fmt.Errorf("copy the rights on %s: %w", s.template, err)
		}
		return nil
	})
}

func (s *server) drop(ctx context.Context, name string) error {
	return s.in(ctx, s.admin.Database, "", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `drop database if exists `+pgx.Identifier{name}.Sanitize()+` with (force)`)
		if err != nil {
			return fmt.Errorf("drop %s: %w", name, err)
		}
		return nil
	})
}

// keepClones is how long the databases of failed or killed tests stay on a lasting server.
const keepClones = 24 * time.Hour

// dropOld drops what tests left behind a day ago; the name tells the time.
func dropOld(ctx context.Context, conn *pgx.Conn) error {
	rows, _ := conn.Query(ctx, `
		select datname from pg_database
		 where datname ~ ('^' || $1 || '\d+_[0-9a-f]+$')
		   and split_part(datname, '_', 3)::bigint < $2`, clonePrefix, time.Now().Add(-keepClones).Unix())
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list old test databases: %w", err)
	}
	for _, name := range names {
		if _, err := conn.Exec(ctx, `drop database if exists `+pgx.Identifier{name}.Sanitize()+` with (force)`); err != nil {
			return fmt.Errorf("drop %s: %w", name, err)
		}
	}
	return nil
}
