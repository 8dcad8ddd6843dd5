package stack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/testkit/postgres"
)

const databaseName = "slotwise"

// roles are all that deploy/postgres/roles.sql creates.
var roles = []string{
	"slotwise_booking_owner", "slotwise_notifier_owner",
	"slotwise_booking", "slotwise_relay", "slotwise_notifier", "slotwise_scheduler",
}

// database is the PostgreSQL of a stack: a server, and one database with roles in it.
type database struct {
	server *postgres.Server
	admin  *url.URL // of an administrator, in the database
	pooler string
	words  map[string]string // passwords by role
}

// startDatabase finds or starts the server, makes the database unless the given URL names
// one, and gives every role its rights and a password of its own.
func startDatabase(ctx context.Context, c *Config) (*database, error) {
	options := postgres.Options{URL: c.DatabaseURL, Setting: "DATABASE_URL", Durable: c.Sync}
	if c.DatabaseURL == "" {
		password, err := secret(c.Dir, "postgres")
		if err != nil {
			return nil, err
		}
		options.Dir, options.Addr, options.Password = filepath.Join(c.Dir, "postgres"), c.addr(c.Postgres), password
	}
	server, err := postgres.Start(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	db := &database{server: server, pooler: c.Pooler, words: map[string]string{}}
	if err := db.prepare(ctx, c); err != nil {
		return nil, errors.Join(err, server.Stop(context.WithoutCancel(ctx)))
	}
	return db, nil
}

func (db *database) prepare(ctx context.Context, c *Config) error {
	admin, err := url.Parse(db.server.AdminURL)
	if err != nil {
		return errors.New("the administrator's URL of PostgreSQL is not understood")
	}
	db.admin = admin
	if c.DatabaseURL == "" {
		if err := db.create(ctx); err != nil {
			return err
		}
		db.admin.Path = "/" + databaseName
	}
	for _, role := range roles {
		if c.Password != "" {
			db.words[role] = c.Password
			continue
		}
		if db.words[role], err = secret(c.Dir, role); err != nil {
			return err
		}
	}
	if c.Password != "" {
		return nil // whoever set it has applied the roles too
	}
	return db.applyRoles(ctx, filepath.Join(c.Root, "deploy", "postgres", "roles.sql"))
}

func (db *database) create(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, db.admin.String())
	if err != nil {
		return fmt.Errorf("connect as administrator: %w", err)
	}
	defer conn.Close(ctx)
	var there bool
	if err := conn.QueryRow(ctx, `select exists (select from pg_database where datname = $1)`, databaseName).Scan(&there); err != nil {
		return fmt.Errorf("look for the database: %w", err)
	}
	if there {
		return nil
	}
	if _, err := conn.Exec(ctx, `create database `+databaseName); err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	return nil
}

func (db *database) applyRoles(ctx context.Context, file string) error {
	text, err := os.ReadFile(file) //nolint:gosec // a file of ours
	if err != nil {
		return fmt.Errorf("read roles: %w", err)
	}
	conn, err := pgx.Connect(ctx, db.admin.String())
	if err != nil {
		return fmt.Errorf("connect as administrator: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, string(text)); err != nil {
		return fmt.Errorf("apply roles.sql: %w", err)
	}
	for role, password := range db.words { // hexadecimal: nothing to escape
		if _, err := conn.Exec(ctx, `alter role `+role+` password '`+password+`'`); err != nil {
			return fmt.Errorf("set the password of %s: %w", role, err)
		}
	}
	return nil
}

// url is how the role reaches the database, by the pooler if there is one.
func (db *database) url(role string) string {
	u := *db.admin
	u.User = url.UserPassword(role, db.words[role])
	if db.pooler != "" && !strings.HasSuffix(role, "_owner") {
		u.Host = db.pooler
	}
	return u.String()
}

// secret reads a password from the data folder, making it the first time.
func secret(dir, name string) (string, error) {
	return kept(dir, name, func() string { return strings.ToLower(rand.Text()) })
}

// kept reads what only we may know from the data folder, making it the first time.
func kept(dir, name string, first func() string) (string, error) {
	file := filepath.Join(dir, "secrets", name)
	text, err := os.ReadFile(file) //nolint:gosec // below the data folder
	if err == nil {
		return string(text), nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read a secret: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", fmt.Errorf("make the folder of secrets: %w", err)
	}
	word := first()
	if err := os.WriteFile(file, []byte(word), 0o600); err != nil {
		return "", fmt.Errorf("keep a secret: %w", err)
	}
	return word, nil
}
