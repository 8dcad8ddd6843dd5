package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slotwise/slotwise/testkit/pooler"
	"github.com/slotwise/slotwise/testkit/postgres"
)

// Password is every role's on a test server.
const Password = "slotwise-test"

// server is a prepared server: roles exist and may log in, the template is there.
type server struct {
	admin    *pgx.ConnConfig // for the maintenance database
	template string
	roles    []string       // who may log in
	pooler   *pooler.Pooler // between roles and server; nil: none
}

// shared is the server of this test binary, prepared at most once. It is never stopped here:
// it ends with the binary.
var shared = sync.OnceValues(func() (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	pg, err := postgres.Start(ctx, postgres.Options{URL: os.Getenv("TEST_DATABASE_URL"), Image: os.Getenv("TEST_POSTGRES_IMAGE")})
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(pg.AdminURL)
	if err != nil {
		return nil, fmt.Errorf("parse the administrator's URL: %w", err)
	}
	s, err := prepare(ctx, config)
	if err == nil && os.Getenv("TEST_POOLER") != "" {
		err = s.startPooler(ctx)
	}
	return s, err
})

// lockSetup is held while roles and templates are made: they belong to the whole server, and
// test binaries start together. It is of the maintenance database.
const lockSetup = `select pg_advisory_lock(hashtextextended('slotwise test setup', 0))`

func prepare(ctx context.Context, config *pgx.ConnConfig) (*server, error) {
	source, err := readSource()
	if err != nil {
		return nil, err
	}
	return prepareFrom(ctx, config, source)
}

func prepareFrom(ctx context.Context, config *pgx.ConnConfig, source *source) (*server, error) {
	s := &server{admin: config, template: "slotwise_template_" + source.hash}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to the test server: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) // frees the lock
	if _, err := conn.Exec(ctx, lockSetup); err != nil {
		return nil, fmt.Errorf("lock the test server: %w", err)
	}
	if err := dropOld(ctx, conn); err != nil {
		return nil, err
	}
	ready, err := isTemplate(ctx, conn, s.template)
	if err != nil {
		return nil, err
	}
	if !ready {
		if err := s.build(ctx, conn, source); err != nil {
			return nil, fmt.Errorf("make template %s: %w", s.template, err)
		}
	}
	return s, s.allowLogins(ctx, conn)
}

func isTemplate(ctx context.Context, conn *pgx.Conn, name string) (bool, error) {
	var ready bool
	err := conn.QueryRow(ctx, `select datistemplate from pg_database where datname = $1`, name).Scan(&ready)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, fmt.Errorf("look for template %s: %w", name, err)
	}
	return ready, nil
}

// build makes the template. is_template is set last, so that one which a killed run left
// half made is made again.
func (s *server) build(ctx context.Context, conn *pgx.Conn, source *source) error {
	name := pgx.Identifier{s.template}.Sanitize()
	for _, sql := range []string{`drop database if exists ` + name + ` with (force)`, `create database ` + name} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if err := s.in(ctx, s.template, "", source.applyRoles); err != nil {
		return err
	}
	if err := s.allowLogins(ctx, conn); err != nil {
		return err
	}
	for _, schema := range source.schemas {
		err := s.in(ctx, s.template, "slotwise_"+schema+"_owner", func(ctx context.Context, owner *pgx.Conn) error {
			return source.migrate(ctx, owner, schema)
		})
		if err != nil {
			return err
		}
	}
	_, err := conn.Exec(ctx, `alter database `+name+` is_template true`)
	return err
}

// startPooler puts PgBouncer between the roles and the server.
func (s *server) startPooler(ctx context.Context) (err error) {
	urls := make([]string, 0, len(s.roles))
	for _, role := range s.roles {
		urls = append(urls, s.url(s.admin.Database, role))
	}
	if s.pooler, err = pooler.Start(ctx, urls...); err != nil {
		return fmt.Errorf("start the pooler of TEST_POOLER: %w", err)
	}
	return nil
}

// allowLogins gives each role of ours the password of tests.
func (s *server) allowLogins(ctx context.Context, conn *pgx.Conn) error {
	rows, _ := conn.Query(ctx, `select rolname from pg_roles where rolname like 'slotwise\_%' and rolcanlogin order by 1`)
	var err error
	if s.roles, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return fmt.Errorf("list roles: %w", err)
	}
	for _, role := range s.roles {
		if _, err := conn.Exec(ctx, `alter role `+pgx.Identifier{role}.Sanitize()+` password '`+Password+`'`); err != nil {
			return fmt.Errorf("set the password of %s: %w", role, err)
		}
	}
	return nil
}

// in runs do on a connection of its own as role; "" is the administrator.
func (s *server) in(ctx context.Context, database, role string, do func(context.Context, *pgx.Conn) error) error {
	config := s.admin.Copy()
	config.Database = database
	if role != "" {
		config.User, config.Password = role, Password
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect to %s as %q: %w", database, config.User, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return do(ctx, conn)
}
