package store_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/slotwise/slotwise/testkit/dbtest"
)

// What each role may and may not do in schema booking. Nobody but the booking service sees a
// person, the notifier excepted, who sees whom a booking's mail goes to.
func TestWhatEachRoleIsDenied(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	allowed := map[string][]string{
		"slotwise_booking": {
			`select address from booking.customers`, `select note from booking.contacts`, `delete from booking.seats`,
			`delete from booking.outbox_events`, `select key, reason from notifier.for_booking`, `select mark from notifier.progress_for_booking`,
			`select hash from booking.api_keys`, `update booking.api_keys set revoked_at = now(), last_used_at = now()`,
		},
		"slotwise_relay": {
			`select payload from booking.outbox_events`, `update booking.outbox_events set published_at = now()`,
			`select id from booking.outbox_events for no key update`,
		},
		"slotwise_notifier": {
			`select address from booking.for_notifier`, `select payload from booking.outbox_for_notifier`,
			`select hash from booking.keys_for_notifier`, `update booking.keys_for_notifier set last_used_at = now()`,
		},
		"slotwise_scheduler": {`select remind_at from booking.for_scheduler`},
	}
	denied := map[string][]string{
		"slotwise_booking": {
			`select 1 from notifier.send_log`, `select 1 from notifier.hands`, `update notifier.progress set mark = 1`, `update notifier.switches set paused = true`,
			`delete from booking.bookings`, `delete from booking.customers`, `delete from booking.resources`, `delete from booking.migrations`,
			`update booking.outbox_events set published_at = now()`, `alter table booking.bookings add column x int`,
			`delete from booking.api_keys`, `update booking.api_keys set scopes = array['admin']`, `update booking.api_keys set expires_at = null`,
			`create table booking.x ()`, `create schema x`, `truncate booking.seats`,
		},
		"slotwise_relay": {
			`select 1 from booking.bookings`, `select 1 from booking.customers`, `select 1 from booking.contacts`, `select 1 from booking.for_notifier`,
			`select 1 from booking.for_scheduler`, `select 1 from booking.idempotency_keys`, `select 1 from booking.resources`, `select 1 from booking.seats`,
			`select 1 from booking.api_keys`, `select 1 from booking.keys_for_notifier`,
			`delete from booking.outbox_events`, `insert into booking.outbox_events (key, subject, message_id, payload) values ('k', 's', 'm', 'p')`,
			`update booking.outbox_events set payload = ''`, `update booking.outbox_events set subject = ''`,
			`select 1 from notifier.send_log`, `select 1 from notifier.for_booking`,
		},
		"slotwise_notifier": {
			`select 1 from booking.bookings`, `select 1 from booking.customers`, `select 1 from booking.contacts`, `select 1 from booking.outbox_events`,
			`select 1 from booking.idempotency_keys`, `update booking.bookings set seats = 1`, `update booking.for_notifier set version = 1`,
			`select 1 from booking.api_keys`, `update booking.keys_for_notifier set revoked_at = null`, `update booking.keys_for_notifier set scopes = array['admin']`,
			`delete from booking.keys_for_notifier`, `insert into booking.keys_for_notifier (id) values ('key_aaaaaaaaaaaaaaaa')`,
			`delete from booking.outbox_for_notifier`, `insert into booking.contacts values (null)`,
		},
		"slotwise_scheduler": {
			`select 1 from booking.bookings`, `select 1 from booking.customers`, `select 1 from booking.contacts`, `select 1 from booking.for_notifier`,
			`select 1 from booking.outbox_events`, `select 1 from booking.outbox_for_notifier`, `select 1 from booking.idempotency_keys`,
			`select 1 from booking.api_keys`, `select 1 from booking.keys_for_notifier`,
			`update booking.for_scheduler set remind_at = null`, `select 1 from notifier.send_log`, `select 1 from notifier.for_booking`,
		},
	}
	try := func(role, sql string) string {
		tx, err := db.Pool(role).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // nothing of it is wanted
		_, err = tx.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
		if pgErr, ok := err.(*pgconn.PgError); ok { //nolint:errorlint // as it came
			return pgErr.Code
		}
		return ""
	}
	for role, all := range allowed {
		for _, sql := range all {
			if code := try(role, sql); code != "" {
				t.Errorf("%s may not %s (%s)", role, sql, code)
			}
		}
	}
	for role, all := range denied {
		for _, sql := range all {
			if code := try(role, sql); code != "42501" && code != "55000" { // insufficient privilege; a view that takes no writes
				t.Errorf("%s may %s (%q)", role, sql, code)
			}
		}
	}
	var columns string
	err := db.Admin.QueryRow(t.Context(), `
		select string_agg(column_name, ', ' order by ordinal_position) from information_schema.columns
		where table_schema = 'booking' and table_name = 'for_scheduler'`).Scan(&columns)
	if err != nil || columns != "booking, status, start_version, starts_at, remind_at" {
		t.Errorf("the scheduler sees %s (%v)", columns, err)
	}
}

// The services' own timeouts: nothing frozen holds a lock for longer.
func TestTimeoutsOfTheRole(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t).Pool("slotwise_booking")
	for setting, want := range map[string]string{"idle_in_transaction_session_timeout": "20s", "statement_timeout": "15s", "lock_timeout": "5s"} {
		var got string
		if err := pool.QueryRow(t.Context(), `select current_setting($1)`, setting).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %s, want %s (%v)", setting, got, want, err)
		}
	}
}

// Every statement of the service can be prepared as its role: names, types and rights are
// right. They are found, not listed: constants that begin like SQL, and .sql files.
func TestEveryStatementPrepares(t *testing.T) {
	t.Parallel()
	statements := map[string]string{}
	for _, dir := range []string{".", "../retention"} {
		maps.Copy(statements, statementsIn(t, dir))
	}
	if len(statements) < 20 {
		t.Fatalf("only %d statements were found", len(statements))
	}
	conn, err := dbtest.New(t).Pool("slotwise_booking").Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for name, sql := range statements {
		if _, err := conn.Conn().Prepare(t.Context(), "", sql); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var looksLikeSQL = regexp.MustCompile(`(?is)^\s*(--.*\n\s*)*(select|insert into|update|delete from|with)\s`)

func statementsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found[file] = string(text)
	}
	sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range sources {
		if matched, _ := filepath.Match("*_test.go", filepath.Base(file)); matched {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for node := range ast.Preorder(tree) {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			if sql, err := strconv.Unquote(literal.Value); err == nil && looksLikeSQL.MatchString(sql) {
				found[file+": "+sql] = sql
			}
		}
	}
	return found
}
