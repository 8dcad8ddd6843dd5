package pkgtest

import (
	"context"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/pooler"
)

// lab is a schema with a table of many rows and, in its second migration, an index.
func lab(index string) fstest.MapFS {
	return fstest.MapFS{
		"0001_lab.sql":   {Data: []byte(`create table lab.rows (n integer); insert into lab.rows select n from generate_series(1, 100000) n`)},
		"0002_index.sql": {Data: []byte("-- Built while rows are written.\n" + index)},
	}
}

const goodIndex = `create index concurrently rows_n on lab.rows (n) where n > 0; create index concurrently rows_m on lab.rows (n desc);`

// indexes returns the names of the lab's valid indexes, and fails on one that is not valid.
func indexes(t *testing.T, db *dbtest.DB) int {
	t.Helper()
	if n := value[int](t, db, `select count(*) from pg_index where indrelid = 'lab.rows'::regclass and not indisvalid`); n != 0 {
		t.Errorf("%d indexes are not valid", n)
	}
	return value[int](t, db, `select count(*) from pg_index where indrelid = 'lab.rows'::regclass`)
}

// Two migrate at once, directly and behind a pooler, while somebody writes: each index is built
// once, and both end well.
func TestIndexConcurrently(t *testing.T) {
	t.Parallel()
	for name, through := range map[string]func(*testing.T, *dbtest.DB) string{
		"directly": func(_ *testing.T, db *dbtest.DB) string { return db.URL("slotwise_booking_owner") },
		"behind pooler": func(t *testing.T, db *dbtest.DB) string {
			t.Helper()
			return pooler.New(t, db, "slotwise_booking_owner").URL("slotwise_booking_owner")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := dbtest.New(t)
			location := through(t, db)
			if err := migrateAt(t.Context(), location, "lab", fstest.MapFS{"0001_lab.sql": lab("")["0001_lab.sql"]}); err != nil {
				t.Fatal(err)
			}
			writing, stop := context.WithCancel(t.Context())
			wrote := make(chan error, 1)
			go func() {
				for writing.Err() == nil {
					if _, err := db.Admin.Exec(context.WithoutCancel(writing), `insert into lab.rows values (7)`); err != nil {
						wrote <- err
						return
					}
				}
				wrote <- nil
			}()
			ended := make(chan error, 3)
			for range cap(ended) {
				go func() { ended <- migrateAt(t.Context(), location, "lab", lab(goodIndex)) }()
			}
			for range cap(ended) {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
			stop()
			if err := <-wrote; err != nil {
				t.Error(err)
			}
			if n := indexes(t, db); n != 2 {
				t.Errorf("%d indexes", n)
			}
			if n := value[int](t, db, `select count(*) from lab.migrations`); n != 2 {
				t.Errorf("%d migrations are recorded", n)
			}
		})
	}
}

// A try that failed has left an index that is not valid: the next one builds it anew.
func TestIndexAfterAFailedTry(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	location := db.URL("slotwise_booking_owner")
	unique := lab(`create unique index concurrently rows_n on lab.rows (n);`)
	if err := migrateAt(t.Context(), location, "lab", fstest.MapFS{"0001_lab.sql": unique["0001_lab.sql"]}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Admin.Exec(t.Context(), `insert into lab.rows values (7)`); err != nil {
		t.Fatal(err)
	}
	if err := migrateAt(t.Context(), location, "lab", unique); err == nil {
		t.Fatal("a unique index stands on rows that are not unique")
	}
	if n := value[int](t, db, `select count(*) from pg_index where indrelid = 'lab.rows'::regclass and not indisvalid`); n != 1 {
		t.Fatalf("%d indexes are not valid, so this tests nothing", n)
	}
	if n := value[int](t, db, `select count(*) from lab.migrations`); n != 1 {
		t.Errorf("%d migrations are recorded", n)
	}
	if _, err := db.Admin.Exec(t.Context(), `delete from lab.rows where n = 7`); err != nil {
		t.Fatal(err)
	}
	if err := migrateAt(t.Context(), location, "lab", unique); err != nil {
		t.Fatal(err)
	}
	if n := indexes(t, db); n != 1 {
		t.Errorf("%d indexes", n)
	}
}

// Who has an old transaction open is waited for, longer than the owner's lock timeout.
func TestIndexWaitsForAnOldTransaction(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	conn := connect(t, db.URL("slotwise_booking_owner"))
	if err := pgdb.Migrate(t.Context(), conn, "lab", fstest.MapFS{"0001_lab.sql": lab("")["0001_lab.sql"]}); err != nil {
		t.Fatal(err)
	}
	old, err := db.Admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer old.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // rolled back below
	if _, err := old.Exec(t.Context(), `insert into lab.rows values (7)`); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `set lock_timeout = '100ms'`, pgx.QueryExecModeExec); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- pgdb.Migrate(t.Context(), conn, "lab", lab(goodIndex)) }()
	for deadline := time.Now().Add(20 * time.Second); ; {
		if value[int](t, db, `select count(*) from pg_index where indrelid = 'lab.rows'::regclass and not indisvalid`) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no index is being built")
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("it ended under an old transaction: %v", err)
	case <-time.After(300 * time.Millisecond): // several lock timeouts
	}
	if err := old.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if n := indexes(t, db); n != 2 {
		t.Errorf("%d indexes", n)
	}
}

// What is not such a statement would run outside of a transaction: it is refused.
func TestIndexConcurrentlyStandsAlone(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	for _, text := range []string{
		`create index concurrently rows_n on lab.rows (n); drop table lab.rows`,
		`create index concurrently if not exists rows_n on lab.rows (n)`,
		`create index concurrently rows_n on rows (n)`,
	} {
		if err := migrateAt(t.Context(), db.URL("slotwise_booking_owner"), "lab", lab(text)); err == nil {
			t.Errorf("applied: %s", text)
		}
	}
}
