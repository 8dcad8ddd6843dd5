package pooler_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/pooler"
)

func TestRolesKeepTheirSettings(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	p := pooler.New(t, db, "slotwise_booking", "slotwise_booking_owner")
	for role, timeout := range map[string]string{"slotwise_booking": "15s", "slotwise_booking_owner": "0"} {
		conn := connect(t, p.URL(role))
		var who, where, limit string
		err := conn.QueryRow(t.Context(), `select current_user, current_database(), current_setting('statement_timeout')`).Scan(&who, &where, &limit)
		if err != nil {
			t.Fatal(err)
		}
		if who != role || where != db.Name || limit != timeout {
			t.Errorf("%s in %s with a statement timeout of %s, want %s in %s with %s", who, where, limit, role, db.Name, timeout)
		}
	}
	wrong := strings.Replace(p.URL("slotwise_booking"), dbtest.Password, "wrong", 1)
	if conn, err := pgx.Connect(t.Context(), wrong); err == nil {
		conn.Close(t.Context())
		t.Error("a wrong password is let in")
	}
}

// The pooler is worth its name only when it breaks what must break: a client's next
// transaction runs on another server connection, which knows nothing of the last one.
func TestTransactionsChangeServers(t *testing.T) {
	t.Parallel()
	p := pooler.New(t, dbtest.New(t), "slotwise_booking")
	conn := connect(t, p.URL("slotwise_booking"))
	openServers(t, p)
	servers := map[uint32]bool{}
	for range 10 {
		var pid uint32
		if err := conn.QueryRow(t.Context(), `select pg_backend_pid()`, pgx.QueryExecModeExec).Scan(&pid); err != nil {
			t.Fatal(err)
		}
		servers[pid] = true
	}
	if len(servers) < 2 {
		t.Errorf("all of one client's transactions ran on one server connection")
	}
}

// B29: this is the fault that people report, and what our settings must avoid.
func TestB29PreparedStatementsBreak(t *testing.T) {
	t.Parallel()
	p := pooler.New(t, dbtest.New(t), "slotwise_booking")
	openServers(t, p)
	conn := connect(t, p.URL("slotwise_booking"))
	for range 10 {
		var n int
		err := conn.QueryRow(t.Context(), `select $1::int`, 1).Scan(&n)
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && (pgErr.Code == "26000" || pgErr.Code == "42P05") {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("prepared statements work through this pooler: it can't show what breaks")
}

func TestEndsWithTheTest(t *testing.T) {
	db := dbtest.New(t)
	var addr string
	t.Run("one test", func(t *testing.T) {
		addr = pooler.New(t, db, "slotwise_booking").Addr()
	})
	if conn, err := net.Dial("tcp", addr); err == nil { //nolint:noctx // a loopback socket
		conn.Close()
		t.Errorf("somebody still listens on %s", addr)
	}
}

// openServers makes the pooler open two server connections, which it then uses in turn.
func openServers(t *testing.T, p *pooler.Pooler) {
	t.Helper()
	for range 2 {
		tx, err := connect(t, p.URL("slotwise_booking")).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context()) //nolint:errcheck // nothing was written
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}
