package pgdb

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/slotwise/slotwise/pkg/retry"
)

// indexTries is how often the building of one index is begun. Each try waits for transactions
// that are older than it, each for the owner's lock timeout at most: one that lives longer, such
// as a backup's, ends the try.
const indexTries = 10

// indexForm is the one statement that a migration of indexes may hold, any number of times.
var indexForm = regexp.MustCompile(`(?is)^create\s+(?:unique\s+)?index\s+concurrently\s+([a-z0-9_]+)\s+on\s+([a-z0-9_]+)\.([a-z0-9_]+)\s*\(.*$`)

// index is one that is built while the table is written to.
type index struct {
	schema, table, name string
	statement           string
}

// indexes returns what m builds concurrently; nil when it is a migration like any other. Such
// statements can't run in a transaction, so a file holds nothing else.
func (m Migration) indexes() ([]index, error) {
	text := regexp.MustCompile(`(?m)--.*$`).ReplaceAllString(m.SQL, "")
	if !regexp.MustCompile(`(?i)\bindex\s+concurrently\b`).MatchString(text) {
		return nil, nil
	}
	var all []index
	for statement := range strings.SplitSeq(text, ";") {
		statement = strings.TrimSpace(statement)
		if statement == "" {
			continue
		}
		parts := indexForm.FindStringSubmatch(statement)
		if parts == nil {
			return nil, errors.New("a file that builds an index concurrently holds only: create [unique] index concurrently <name> on <schema>.<table> (…) …")
		}
		all = append(all, index{schema: parts[2], table: parts[3], name: parts[1], statement: statement})
	}
	return all, nil
}

// applyIndexes is apply for a migration that builds indexes. The migration counts once all of
// them are valid.
//
// PostgreSQL builds them outside of a transaction, in several steps, and what fails leaves an
// index that is not valid. The lock of migrations is not held meanwhile, and nobody who holds it
// waits for a build: the build waits for everybody whose snapshot is older than its own, and so
// for who waits for that lock (PostgreSQL ended such a ring as a deadlock). What keeps two apart
// is the lock that a build has on its table.
func applyIndexes(ctx context.Context, conn *pgx.Conn, schema string, m Migration, all []index) error {
	for _, i := range all {
		if err := i.build(ctx, conn, schema, m); err != nil {
			return err
		}
	}
	return inTurn(ctx, conn, schema, m, func(ctx context.Context, tx pgx.Tx) error { return record(ctx, tx, schema, m) })
}

func (i index) build(ctx context.Context, conn *pgx.Conn, schema string, m Migration) error {
	wait := retry.Backoff{Base: 100 * time.Millisecond, Max: 5 * time.Second}
	for n := 1; ; n++ {
		done, err := i.clear(ctx, conn, schema, m)
		if done || err != nil {
			return err
		}
		_, err = conn.Exec(ctx, i.statement, pgx.QueryExecModeExec)
		switch {
		case err == nil:
			return nil
		case n == indexTries || !passing(err):
			return fmt.Errorf("build index %s: %w", i.name, err)
		}
		if err := retry.Sleep(ctx, wait.Delay(n)); err != nil {
			return fmt.Errorf("wait to build index %s: %w", i.name, err)
		}
	}
}

// clear drops what a try that failed has left, and reports whether the index is there and valid,
// or the migration has been applied. Who builds the index holds a lock on the table that
// conflicts with this one, so what is seen under it nobody is building; that is waited for as
// long as it takes.
func (i index) clear(ctx context.Context, conn *pgx.Conn, schema string, m Migration) (done bool, err error) {
	for {
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			table := pgx.Identifier{i.schema, i.table}.Sanitize()
			// Not waited for in PostgreSQL: who waits for a lock may have a snapshot, which who builds waits for.
			if _, err := tx.Exec(ctx, `lock table `+table+` in share update exclusive mode nowait`); err != nil {
				return err
			}
			var valid bool
			if done, valid, err = i.state(ctx, tx, schema, m); err != nil || done || valid {
				done = done || valid
				return err
			}
			_, err = tx.Exec(ctx, `drop index if exists `+pgx.Identifier{i.schema, i.name}.Sanitize())
			return err
		})
		if !busy(err) {
			break
		}
		if err := retry.Sleep(ctx, time.Second); err != nil {
			return false, fmt.Errorf("wait for who builds index %s: %w", i.name, err)
		}
	}
	if err != nil {
		return false, fmt.Errorf("look for index %s: %w", i.name, err)
	}
	return done, nil
}

// state tells whether m has been applied, and whether the index is there and valid.
func (i index) state(ctx context.Context, tx pgx.Tx, schema string, m Migration) (applied, valid bool, err error) {
	err = tx.QueryRow(ctx, `
		select exists (select from `+list(schema)+` where number = $1),
		       coalesce((
		           select x.indisvalid
		           from pg_index x
		           join pg_class c on c.oid = x.indexrelid
		           join pg_namespace s on s.oid = c.relnamespace
		           where c.relname = $2 and s.nspname = $3), false)`, m.Number, i.name, i.schema).Scan(&applied, &valid)
	return applied, valid, err
}

// busy reports whether somebody holds the table's lock (a build, or a vacuum), or ended a build in
// the instant in which its index was dropped.
func busy(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgErr.Code == "55P03" || pgErr.Code == "XX000" && strings.Contains(pgErr.Message, "concurrently"))
}

// passing reports whether an error of a build may go away by itself: the lock timeout, over for
// somebody's old snapshot (55P03), an index that somebody else has begun (42P07, 23505), or a
// deadlock that was lost (40P01).
func passing(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	catalog := pgErr.Code == "23505" && pgErr.SchemaName == "pg_catalog"
	return pgErr.Code == "55P03" || pgErr.Code == "42P07" || pgErr.Code == "40P01" || catalog
}
