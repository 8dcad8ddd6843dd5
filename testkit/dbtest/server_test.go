package dbtest

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
)

// failed is a test that fails, as its database sees it.
type failed struct {
	testing.TB
	cleanups []func()
	log      strings.Builder
}

func (f *failed) Failed() bool               { return true }
func (f *failed) Cleanup(do func())          { f.cleanups = append(f.cleanups, do) }
func (f *failed) Logf(form string, v ...any) { fmt.Fprintf(&f.log, form, v...) }

func TestFailedTestKeepsItsDatabase(t *testing.T) {
	t.Parallel()
	f := &failed{TB: t}
	db := New(f)
	for _, do := range f.cleanups {
		do()
	}
	if !strings.Contains(f.log.String(), db.URL("")) {
		t.Errorf("the log does not tell the URL: %s", f.log.String())
	}
	conn, err := pgx.Connect(t.Context(), db.URL("slotwise_booking"))
	if err != nil {
		t.Fatalf("the database is gone: %v", err)
	}
	_ = conn.Close(t.Context()) // it has answered
	if err := db.server.drop(t.Context(), db.Name); err != nil {
		t.Error(err)
	}
}

// A killed run leaves a database with the template's name that is none.
func TestHalfMadeTemplateIsMadeAgain(t *testing.T) {
	t.Parallel()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	present, err := readSource()
	if err != nil {
		t.Fatal(err)
	}
	changed := *present
	changed.hash = fmt.Sprintf("%016x", time.Now().UnixNano())
	half := &server{admin: s.admin, template: "slotwise_template_" + changed.hash}
	err = s.in(t.Context(), s.admin.Database, "", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `create database `+half.template)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	made, err := prepareFrom(t.Context(), s.admin, &changed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dropTemplate(t, s, made.template) })
	name := fmt.Sprintf("%s%d_%08x", clonePrefix, time.Now().Unix(), 1)
	if err := made.clone(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.drop(context.WithoutCancel(t.Context()), name); err != nil {
			t.Error(err)
		}
	})
	err = s.in(t.Context(), name, "slotwise_booking", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `select from booking.migrations`)
		return err
	})
	if err != nil {
		t.Errorf("the clone of the template that was half made: %v", err)
	}
}

func TestTemplateIsNamedByItsSource(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"deploy/postgres/roles.sql":              {Data: []byte("select 1")},
		"services/booking/migrations/0001_a.sql": {Data: []byte("select 2")},
		"pkg/pgdb/migrate.go":                    {Data: []byte("package pgdb")},
	}
	hashes := map[string]string{}
	for _, change := range []struct {
		name string
		make func()
	}{
		{"nothing", func() {}},
		{"roles", func() { files["deploy/postgres/roles.sql"] = &fstest.MapFile{Data: []byte("select 3")} }},
		{"a migration more", func() {
			files["services/notifier/migrations/0001_b.sql"] = &fstest.MapFile{Data: []byte("select 2")}
		}},
		{"the code", func() { files["pkg/pgdb/migrate.go"] = &fstest.MapFile{Data: []byte("package  pgdb")} }},
	} {
		change.make()
		s, err := readSourceIn(files)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := hashes[s.hash]; ok {
			t.Errorf("%s and %s have one hash", change.name, other)
		}
		hashes[s.hash] = change.name
	}
	if _, err := readSourceIn(fs.FS(fstest.MapFS{})); err == nil {
		t.Error("an empty folder is a source")
	}
}

func TestOldClonesAreDropped(t *testing.T) {
	t.Parallel()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	old := fmt.Sprintf("%s%d_%08x", clonePrefix, time.Now().Add(-keepClones-time.Minute).Unix(), 2)
	err = s.in(t.Context(), s.admin.Database, "", func(ctx context.Context, conn *pgx.Conn) error {
		for _, sql := range []string{lockSetup, `create database ` + old} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return err
			}
		}
		if err := dropOld(ctx, conn); err != nil {
			return err
		}
		var there int
		err := conn.QueryRow(ctx, `select count(*) from pg_database where datname = $1`, old).Scan(&there)
		if there != 0 {
			t.Error("it is still there")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func dropTemplate(t *testing.T, s *server, name string) {
	t.Helper()
	err := s.in(context.WithoutCancel(t.Context()), s.admin.Database, "", func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, `alter database `+name+` is_template false`); err != nil {
			return err
		}
		return s.drop(ctx, name)
	})
	if err != nil {
		t.Error(err)
	}
}
