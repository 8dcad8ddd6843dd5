package pkgtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/pkg/outbox"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/testkit/checkout"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/pooler"
)

// B29: in every mode that DATABASE_EXEC_MODE offers but cache_statement, the outbox works
// behind a pooler in transaction mode, and with all of its types.
func TestB29OutboxBehindAPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "auto", "cache_describe", "exec", "simple_protocol"} {
		t.Run("mode "+mode, func(t *testing.T) {
			t.Parallel()
			db := dbtest.New(t)
			p := pooler.New(t, db, "slotwise_booking", "slotwise_relay")
			writer, relay := open(t, p.URL("slotwise_booking"), mode), open(t, p.URL("slotwise_relay"), mode)
			for range 5 {
				outboxWorks(t, writer, relay)
			}
		})
	}
}

// Directly, statements are prepared unless somebody says otherwise.
func TestAutoPreparesDirectly(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	for how, c := range map[string]struct {
		url  string
		want bool
	}{
		"directly":         {db.URL("slotwise_booking"), os.Getenv("TEST_POOLER") == ""},
		"through a pooler": {pooler.New(t, db, "slotwise_booking").URL("slotwise_booking"), false},
	} {
		pool := open(t, c.url, "")
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		tx, err := conn.Begin(t.Context()) // one server connection for both statements
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context()) //nolint:errcheck // nothing was written
		var prepared bool
		err = tx.QueryRow(t.Context(), `select exists (select from pg_prepared_statements where statement like '%' || $1)`, "").Scan(&prepared)
		if err != nil {
			t.Fatal(err)
		}
		if prepared != c.want {
			t.Errorf("%s: statements prepared %t, want %t", how, prepared, c.want)
		}
	}
}

// B29: who asks for prepared statements behind a pooler that keeps none gets PostgreSQL's own
// words, and no wrong answer.
func TestB29CacheStatementFailsAloud(t *testing.T) {
	t.Parallel()
	p := pooler.New(t, dbtest.New(t), "slotwise_booking")
	pool := open(t, p.URL("slotwise_booking"), "cache_statement")
	openServers(t, pool)
	for n := range 20 {
		var got int
		err := pool.QueryRow(t.Context(), `select $1::int`, n).Scan(&got)
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && (pgErr.Code == "26000" || pgErr.Code == "42P05") {
			return
		}
		if err != nil || got != n {
			t.Fatalf("select %d = %d, %v", n, got, err)
		}
	}
	t.Error("prepared statements work through this pooler: the other tests show nothing")
}

// A database that is away when the pool opens is found later, with the right mode.
func TestAutoWaitsForTheServer(t *testing.T) {
	t.Parallel()
	pool := open(t, "postgres://slotwise_booking:x@127.0.0.1:1/nowhere?sslmode=disable", "")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := pool.Ping(ctx); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Ping with nobody there = %v, want a refused connection at once", err)
	}
}

// B33: three starters migrate at once through the pooler. A session's lock would stay on a
// server connection that nobody unlocks, and all would wait for ever.
func TestB33ThreeMigrateAtOnce(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	p := pooler.New(t, db, "slotwise_booking_owner", "slotwise_notifier_owner")
	empty := emptyDatabase(t, db)
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range []string{"booking", "notifier"} {
		location := inDatabase(t, p.URL("slotwise_"+schema+"_owner"), empty)
		all := os.DirFS(filepath.Join(root, "services", schema, "migrations"))
		ended := make(chan error, 3)
		for range cap(ended) {
			go func() { ended <- migrateAt(t.Context(), location, schema, all) }()
		}
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Errorf("migrate %s: %v", schema, err)
			}
		}
		want, err := pgdb.Migrations(all)
		if err != nil {
			t.Fatal(err)
		}
		conn := connect(t, inDatabase(t, db.URL(""), empty))
		var have, locks int
		err = conn.QueryRow(t.Context(), `
			select (select count(*) from `+schema+`.migrations),
			       (select count(*) from pg_locks l join pg_database d on d.oid = l.database
			         where l.locktype = 'advisory' and d.datname = current_database())`).Scan(&have, &locks)
		if err != nil {
			t.Fatal(err)
		}
		if have != len(want) || locks != 0 {
			t.Errorf("%s has %d migrations and %d advisory locks, want %d and none", schema, have, locks, len(want))
		}
	}
}

// Who comes second waits for a migration that takes longer than the owner's lock timeout.
func TestMigrateWaitsForALongOne(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	long := fstest.MapFS{"0001_long.sql": {Data: []byte(`select pg_sleep(1)`)}}
	ended := make(chan error, 2)
	for range cap(ended) {
		conn := connect(t, db.URL("slotwise_booking_owner"))
		if _, err := conn.Exec(t.Context(), `set lock_timeout = '50ms'`); err != nil {
			t.Fatal(err)
		}
		go func() { ended <- pgdb.Migrate(t.Context(), conn, "long", long) }()
	}
	for range cap(ended) {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// migrateAt does what a service's subcommand of that name does.
func migrateAt(ctx context.Context, location, schema string, files fs.FS) error {
	u, err := url.Parse(location)
	if err != nil {
		return err
	}
	conn, err := pgdb.OpenURL(ctx, u)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return pgdb.Migrate(ctx, conn, schema, files)
}

// emptyDatabase makes a database without any schema of ours and returns its name.
func emptyDatabase(t *testing.T, db *dbtest.DB) string {
	t.Helper()
	name := db.Name + "_empty"
	if _, err := db.Admin.Exec(t.Context(), `create database `+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := db.Admin.Exec(context.WithoutCancel(t.Context()), `drop database `+name+` with (force)`); err != nil {
			t.Error(err)
		}
	})
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	roles, err := os.ReadFile(filepath.Join(root, "deploy", "postgres", "roles.sql"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, inDatabase(t, db.URL(""), name)).Exec(t.Context(), string(roles)); err != nil {
		t.Fatal(err)
	}
	return name
}

func inDatabase(t *testing.T, location, name string) string {
	t.Helper()
	u, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func connect(t *testing.T, location string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), location)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// open opens a service's pool with DATABASE_EXEC_MODE set to mode.
func open(t *testing.T, location, mode string) *pgxpool.Pool {
	t.Helper()
	env := map[string]string{"DATABASE_URL": location, "DATABASE_EXEC_MODE": mode}
	reader := config.New("test", func(name string) string { return env[name] })
	settings := pgdb.Read(reader, "test", 4)
	if err := reader.Err(); err != nil {
		t.Fatal(err)
	}
	pool, err := pgdb.Open(context.WithoutCancel(t.Context()), settings, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// openServers makes the pooler open two server connections, which it then uses in turn.
func openServers(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for range 2 {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context()) //nolint:errcheck // nothing was written
	}
}

// outboxWorks writes, claims and marks, with every type that goes over the wire.
func outboxWorks(t *testing.T, writer, relay *pgxpool.Pool) {
	t.Helper()
	openServers(t, writer)
	openServers(t, relay)
	table, err := outbox.In("booking.outbox_events")
	if err != nil {
		t.Fatal(err)
	}
	booking := uuid(t, writer)
	events := make([]outbox.Event, 3)
	for i := range events {
		events[i] = outbox.Event{
			Key: booking, Subject: "booking.v1.confirmed.room-7." + booking, MessageID: fmt.Sprintf("booking-%s-v%d", booking, i+1),
			Headers: map[string]string{"traceparent": `00-"quoted" 'and' \ ünï`}, Payload: []byte("{\"a\": \"\\u00fc '\"}\x00\xff"),
		}
	}
	events[1].Headers = nil
	err = pgdb.InTx(t.Context(), writer, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		for _, e := range events {
			table.Queue(batch, e)
		}
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		t.Fatalf("write: %v", err)
	}
	for i, want := range events {
		err = pgdb.InTx(t.Context(), relay, func(ctx context.Context, tx pgx.Tx) error {
			rows, err := table.Claim(ctx, tx, 10)
			if err != nil {
				return err
			}
			if len(rows) != 1 {
				t.Fatalf("%d rows claimed, want the oldest one of the key", len(rows))
			}
			row := rows[0]
			if row.MessageID != want.MessageID || string(row.Payload) != string(want.Payload) || !maps.Equal(row.Headers, want.Headers) || row.Attempts > 1 {
				t.Errorf("claimed %+v, want %+v", row, want)
			}
			if i == 1 && row.Attempts == 0 {
				return table.Refused(ctx, tx, row.ID, "it's \"too\" large", -time.Second)
			}
			return table.Published(ctx, tx, []int64{row.ID})
		})
		if err != nil {
			t.Fatalf("claim and mark: %v", err)
		}
		if i == 1 { // once more, after its refusal
			err = pgdb.InTx(t.Context(), relay, func(ctx context.Context, tx pgx.Tx) error {
				rows, err := table.Claim(ctx, tx, 10)
				if err == nil && (len(rows) != 1 || rows[0].Attempts != 1) {
					t.Errorf("after a refusal: %+v", rows)
				}
				ids := []int64{}
				for _, row := range rows {
					ids = append(ids, row.ID)
				}
				return errors.Join(err, table.Published(ctx, tx, ids))
			})
			if err != nil {
				t.Fatalf("claim and mark after a refusal: %v", err)
			}
		}
	}
	backlog, err := table.Backlog(t.Context(), relay)
	if err != nil || backlog.Waiting != 0 {
		t.Errorf("backlog %+v, %v, want nothing", backlog, err)
	}
}

func uuid(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	var id string
	if err := pool.QueryRow(t.Context(), `select gen_random_uuid()::text`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}
