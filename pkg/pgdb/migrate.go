package pgdb

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// Migration is one numbered SQL file, NNNN_name.sql.
type Migration struct {
	Number int
	Name   string
	SQL    string
}

func (m Migration) checksum() []byte {
	sum := sha256.Sum256([]byte(m.SQL))
	return sum[:]
}

var migrationName = regexp.MustCompile(`^(\d{4})_[a-z0-9_]+\.sql$`)

// Migrations reads the migrations in the root of files, in order. A gap in the numbers or a
// name of another form is an error.
func Migrations(files fs.FS) ([]Migration, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	all := make([]Migration, 0, len(names))
	for i, name := range names { // Glob sorts
		parts := migrationName.FindStringSubmatch(name)
		if parts == nil {
			return nil, fmt.Errorf("migration %s: the name is not NNNN_name.sql", name)
		}
		number, err := strconv.Atoi(parts[1])
		if err != nil || number != i+1 {
			return nil, fmt.Errorf("migration %s: number %04d is next", name, i+1)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read migration: %w", err)
		}
		all = append(all, Migration{Number: number, Name: name, SQL: string(text)})
	}
	return all, nil
}

// Migrate applies to schema what is missing, as the owner whom conn logs in as, each file in
// a transaction of its own. Several may run at once, also through a pooler in transaction
// mode: a transaction lock lets one through. A file that was changed after it was applied is
// an error. Services may read which migrations there are: see [Schema].
//
// A file that holds nothing but statements of the form "create index concurrently <name> on
// <schema>.<table> (…)" is run without a transaction. When it fails half way, running it again
// is right.
func Migrate(ctx context.Context, conn *pgx.Conn, schema string, files fs.FS) error {
	all, err := Migrations(files)
	if err != nil {
		return err
	}
	if err := prepare(ctx, conn, schema); err != nil {
		return fmt.Errorf("prepare schema %s: %w", schema, err)
	}
	for _, m := range all {
		if err := apply(ctx, conn, schema, m); err != nil {
			return fmt.Errorf("migration %s/%s: %w", schema, m.Name, err)
		}
	}
	return nil
}

// lockMigrations waits until nobody else migrates schema. That may take as long as building
// an index: the owner's lock timeout is for the tables, not for this.
func lockMigrations(ctx context.Context, tx pgx.Tx, schema string) error {
	if _, err := tx.Exec(ctx, `set local lock_timeout = 0`); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `select pg_advisory_xact_lock(hashtextextended('slotwise migrations of ' || $1, 0))`, schema)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `set local lock_timeout to default`)
	return err
}

// prepare makes the schema and its list of migrations.
func prepare(ctx context.Context, conn *pgx.Conn, schema string) error {
	name := pgx.Identifier{schema}.Sanitize()
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := lockMigrations(ctx, tx, schema); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			create schema if not exists `+name+`;
			create table if not exists `+name+`.migrations (
				number     integer     primary key,
				name       text        not null,
				checksum   bytea       not null,
				applied_at timestamptz not null default clock_timestamp()
			);
			grant select on `+name+`.migrations to public;`)
		return err
	})
}

// apply applies m unless it has been.
func apply(ctx context.Context, conn *pgx.Conn, schema string, m Migration) error {
	indexes, err := m.indexes()
	if err != nil {
		return err
	}
	if indexes != nil {
		return applyIndexes(ctx, conn, schema, m, indexes)
	}
	return inTurn(ctx, conn, schema, m, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, m.SQL); err != nil {
			return err
		}
		return record(ctx, tx, schema, m)
	})
}

// inTurn runs step in a transaction, alone of all who migrate schema, unless m has been applied.
func inTurn(ctx context.Context, conn *pgx.Conn, schema string, m Migration, step func(context.Context, pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := lockMigrations(ctx, tx, schema); err != nil {
			return err
		}
		var checksum []byte
		err := tx.QueryRow(ctx, `select checksum from `+list(schema)+` where number = $1`, m.Number).Scan(&checksum)
		switch {
		case err == nil && string(checksum) != string(m.checksum()):
			return errors.New("the file was changed after it was applied")
		case err == nil:
			return nil
		case !errors.Is(err, pgx.ErrNoRows):
			return err
		}
		return step(ctx, tx)
	})
}

func record(ctx context.Context, tx pgx.Tx, schema string, m Migration) error {
	_, err := tx.Exec(ctx, `insert into `+list(schema)+` (number, name, checksum) values ($1, $2, $3)`, m.Number, m.Name, m.checksum())
	return err
}

// list is the table that tells which migrations schema has.
func list(schema string) string { return pgx.Identifier{schema, "migrations"}.Sanitize() }
