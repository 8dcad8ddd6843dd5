package pkgtest

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/proxy"
)

const owner = "slotwise_booking_owner"

// files are migrations of a schema named lab.
func files(sql ...string) fstest.MapFS {
	all := fstest.MapFS{}
	for i, text := range sql {
		all["000"+string(rune('1'+i))+"_step.sql"] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

func migrate(t *testing.T, db *dbtest.DB, set fstest.MapFS) error {
	t.Helper()
	u, err := url.Parse(db.URL(owner))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgdb.OpenURL(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	return pgdb.Migrate(t.Context(), conn, "lab", set)
}

func value[T any](t *testing.T, db *dbtest.DB, sql string, args ...any) (v T) {
	t.Helper()
	if err := db.Admin.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

const (
	one = `grant usage on schema lab to public; create table lab.a (n integer); insert into lab.a values (1);`
	two = `insert into lab.a values (2); select pg_sleep(0.1);`
)

// B33's side of the migrations: many at once, each file once.
func TestB33MigrateAtOnce(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	var wait sync.WaitGroup
	for range 5 {
		wait.Go(func() {
			if err := migrate(t, db, files(one, two)); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := value[int](t, db, `select count(*) from lab.a`); n != 2 {
		t.Errorf("%d rows: a file ran more or less than once", n)
	}
	if n := value[int](t, db, `select count(*) from lab.migrations`); n != 2 {
		t.Errorf("%d migrations are noted", n)
	}
}

func TestMigrateRefusesAnEditedFile(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	if err := migrate(t, db, files(one, two)); err != nil {
		t.Fatal(err)
	}
	err := migrate(t, db, files(one+" -- a small correction", two, `insert into lab.a values (3)`))
	if err == nil || !strings.Contains(err.Error(), "lab/0001_step.sql: the file was changed") {
		t.Errorf("edited: %v", err)
	}
	if n := value[int](t, db, `select count(*) from lab.a`); n != 2 {
		t.Errorf("%d rows: what stood behind the edited file ran", n)
	}
}

// A file that fails leaves nothing of itself, what came before stays, and it can be mended.
func TestMigrateFails(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	err := migrate(t, db, files(one, `insert into lab.a values (2); select 1/0;`))
	if err == nil || !strings.Contains(err.Error(), "lab/0002_step.sql") {
		t.Fatalf("it said %v", err)
	}
	if n := value[int](t, db, `select count(*) from lab.a`); n != 1 {
		t.Errorf("%d rows", n)
	}
	if err := migrate(t, db, files(one, two)); err != nil {
		t.Errorf("mended: %v", err)
	}
}

func TestMigrationNames(t *testing.T) {
	for _, names := range [][]string{{"0002_a.sql"}, {"0001_a.sql", "0003_b.sql"}, {"0001_a.sql", "0001_b.sql"}, {"1_a.sql"}, {"0001_A.sql"}} {
		set := fstest.MapFS{}
		for _, name := range names {
			set[name] = &fstest.MapFile{}
		}
		if _, err := pgdb.Migrations(set); err == nil {
			t.Errorf("%v is accepted", names)
		}
	}
}

// A service runs on a newer schema, waits for an older one, and says one line a try.
func TestAwaitSchema(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	core, lines := observer.New(zap.WarnLevel)
	done := make(chan error, 1)
	pool := db.Pool("slotwise_relay")
	go func() {
		done <- pgdb.Await(t.Context(), zap.New(core), pool, pgdb.Schema("lab", files(one, two)), pgdb.Readable("booking", "outbox_events"))
	}()
	eventually(t, "a line", func() bool { return lines.FilterMessage("database is not ready").Len() > 0 })
	if err := migrate(t, db, files(one)); err != nil {
		t.Fatal(err)
	}
	if err := pgdb.Schema("lab", files(one, two))(t.Context(), pool); !errors.Is(err, pgdb.ErrOldSchema) {
		t.Errorf("one of two: %v", err)
	}
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	if err := migrate(t, db, files(one, two, `select 1`)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := pgdb.Readable("booking", "contacts")(t.Context(), pool); err == nil {
		t.Error("the relay reads people")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := pgdb.Await(ctx, zap.New(core), pool, pgdb.Readable("booking", "contacts")); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

// Deadlocks and serialization conflicts are run again; what else fails is not.
func TestInTxRetries(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	for name, c := range map[string]struct {
		err  error
		runs int
	}{
		"deadlock":      {&pgconn.PgError{Code: "40P01"}, 3},
		"serialization": {&pgconn.PgError{Code: "40001"}, 3},
		"unique":        {&pgconn.PgError{Code: "23505"}, 1},
		"its own":       {errors.New("no"), 1},
		"fine":          {nil, 1},
	} {
		runs := 0
		err := pgdb.InTx(t.Context(), db.Admin, func(context.Context, pgx.Tx) error { runs++; return c.err })
		if runs != c.runs || !errors.Is(err, c.err) {
			t.Errorf("%s: %d runs, %v", name, runs, err)
		}
	}
}

func TestInTxRealDeadlock(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	if _, err := db.Admin.Exec(t.Context(), `create table lab (n integer primary key, v integer); insert into lab values (1, 0), (2, 0)`); err != nil {
		t.Fatal(err)
	}
	update := func(ctx context.Context, tx pgx.Tx, n int) error {
		_, err := tx.Exec(ctx, `update lab set v = v + 1 where n = $1`, n)
		return err
	}
	var both, runs sync.WaitGroup
	both.Add(2)
	total := make(chan int, 20)
	for _, order := range [][2]int{{1, 2}, {2, 1}} {
		first := true
		runs.Go(func() {
			err := pgdb.InTx(t.Context(), db.Admin, func(ctx context.Context, tx pgx.Tx) error {
				total <- 1
				if err := update(ctx, tx, order[0]); err != nil {
					return err
				}
				if first {
					first = false
					both.Done()
					both.Wait()
				}
				return update(ctx, tx, order[1])
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	runs.Wait()
	if len(total) < 3 {
		t.Error("there was no deadlock to lose")
	}
	if sum := value[int](t, db, `select sum(v) from lab`); sum != 4 {
		t.Errorf("the sum is %d", sum)
	}
}

// B30's side here: the answer to a commit is lost. That is told as not PostgreSQL's own
// answer, and never run again.
func TestB30CommitUnknown(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	if _, err := db.Admin.Exec(t.Context(), `create table lab (n integer); grant all on lab to slotwise_relay`); err != nil {
		t.Fatal(err)
	}
	way := proxy.New(t, db.URL(""))
	u, err := url.Parse(way.URL(db.URL("slotwise_relay")))
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgdb.Open(t.Context(), pgdb.Settings{URL: u, Pool: 2, Service: "test"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	way.When(proxy.ToServer, proxy.Commit, func(c *proxy.Conn) { c.Drop(proxy.ToClient) })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	runs := 0
	err = pgdb.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		runs++
		_, err := tx.Exec(ctx, `insert into lab values (1)`)
		return err
	})
	if err == nil || pgdb.Refused(err) || runs != 1 {
		t.Errorf("%d runs, %v", runs, err)
	}
	if n := value[int](t, db, `select count(*) from lab`); n != 1 {
		t.Errorf("%d rows: it had been committed", n)
	}
}

func TestViolates(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	if _, err := db.Admin.Exec(t.Context(), `create table lab (n integer constraint lab_positive check (n > 0))`); err != nil {
		t.Fatal(err)
	}
	_, err := db.Admin.Exec(t.Context(), `insert into lab values (0)`)
	if !pgdb.Violates(err, "lab_positive") || pgdb.Violates(err, "lab_negative") || !pgdb.Refused(err) {
		t.Errorf("%v", err)
	}
	if pgdb.Violates(nil, "lab_positive") || pgdb.Refused(context.Canceled) {
		t.Error("no error of PostgreSQL's is one")
	}
}

// B148: a URL that can't be read is not repeated.
func TestB148NoSecretInErrors(t *testing.T) {
	u := &url.URL{Scheme: "postgres", User: url.UserPassword("relay", "q^G$%zz"), Host: "host:99999999", Path: "/slotwise"}
	if _, err := pgdb.Open(t.Context(), pgdb.Settings{URL: u, Pool: 2}, nil); err == nil || strings.Contains(err.Error(), "zz") {
		t.Errorf("open: %v", err)
	}
	if _, err := pgdb.OpenURL(t.Context(), u); err == nil || strings.Contains(err.Error(), "zz") {
		t.Errorf("open a connection: %v", err)
	}
}
