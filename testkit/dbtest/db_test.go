package dbtest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/slotwise/slotwise/testkit/dbtest"
)

var roles = []string{
	"slotwise_booking_owner", "slotwise_notifier_owner",
	"slotwise_booking", "slotwise_relay", "slotwise_notifier", "slotwise_scheduler",
}

func TestEachRoleLogsIn(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	for _, role := range roles {
		var who, where string
		if err := db.Pool(role).QueryRow(t.Context(), `select current_user, current_database()`).Scan(&who, &where); err != nil {
			t.Fatal(err)
		}
		if who != role || where != db.Name {
			t.Errorf("as %s: user %s in %s", role, who, where)
		}
	}
	var super bool
	if err := db.Admin.QueryRow(t.Context(), `select rolsuper from pg_roles where rolname = current_user`).Scan(&super); err != nil || !super {
		t.Errorf("the administrator is no superuser: %v", err)
	}
}

func TestCloneHasTheTemplatesRights(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	for _, role := range roles {
		var owner, mayConnect, mayCreate bool
		err := db.Admin.QueryRow(t.Context(), `
			select $1 like '%\_owner', has_database_privilege($1, current_database(), 'connect'),
			       has_database_privilege($1, current_database(), 'create')`, role).Scan(&owner, &mayConnect, &mayCreate)
		if err != nil {
			t.Fatal(err)
		}
		if !mayConnect || mayCreate != owner {
			t.Errorf("%s: connect %t, create %t", role, mayConnect, mayCreate)
		}
	}
	for _, schema := range []string{"booking", "notifier"} {
		var owner string
		err := db.Admin.QueryRow(t.Context(), `select pg_get_userbyid(nspowner) from pg_namespace where nspname = $1`, schema).Scan(&owner)
		if err != nil || owner != "slotwise_"+schema+"_owner" {
			t.Errorf("schema %s is owned by %q: %v", schema, owner, err)
		}
	}
}

func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	a, b := dbtest.New(t), dbtest.New(t)
	if a.Name == b.Name {
		t.Fatal("two databases with one name")
	}
	if _, err := a.Admin.Exec(t.Context(), `create table only_here()`); err != nil {
		t.Fatal(err)
	}
	var there bool
	if err := b.Admin.QueryRow(t.Context(), `select to_regclass('only_here') is not null`).Scan(&there); err != nil || there {
		t.Errorf("a table of one test is in the other's database (%v)", err)
	}
}

func TestDropped(t *testing.T) { //nolint:tparallel // it goes on when its subtest has ended
	t.Parallel()
	db := dbtest.New(t)
	var name string
	var forgotten *pgx.Conn
	t.Run("one test", func(t *testing.T) {
		short := dbtest.New(t)
		name = short.Name
		// A connection that is not of its pools must not keep the database.
		conn, err := pgx.Connect(t.Context(), short.URL("slotwise_booking"))
		if err != nil {
			t.Fatal(err)
		}
		forgotten = conn
	})
	defer forgotten.Close(context.WithoutCancel(t.Context()))
	var there bool
	if err := db.Admin.QueryRow(t.Context(), `select exists (select from pg_database where datname = $1)`, name).Scan(&there); err != nil || there {
		t.Errorf("database %s is still there (%v)", name, err)
	}
}

func BenchmarkNew(b *testing.B) {
	dbtest.New(b)
	for b.Loop() {
		dbtest.New(b)
	}
}
