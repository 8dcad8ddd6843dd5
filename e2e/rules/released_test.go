package rules

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestReleasedMigrations: a migration of the last release has run on somebody's database. What
// it did is changed by a new one, never in place.
func TestReleasedMigrations(t *testing.T) {
	for _, edit := range editedSince(t, root(t)) {
		t.Errorf("%s: released migrations are not edited, renamed or deleted", edit)
	}
}

// editedSince returns the migrations in dir that differ from the commit that deploy/RELEASED
// names first; none before the first release.
func editedSince(t *testing.T, dir string) []string {
	t.Helper()
	released, err := os.ReadFile(filepath.Join(dir, "deploy", "RELEASED"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(released))
	if len(fields) == 0 {
		t.Fatal("deploy/RELEASED names no commit")
	}
	// A shallow clone does not have the commit: then git says so, and the test fails.
	out := git(t, dir, "diff", "--name-only", "--no-renames", "--diff-filter=a", fields[0], "--", ":(glob)**/migrations/*.sql")
	return strings.Fields(out)
}

func TestReleasedMigrationsNotices(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	git(t, dir, "init", "-q")
	write("services/a/migrations/0001_start.sql", "create table a();")
	write("services/a/migrations/0002_more.sql", "create table b();")
	write("services/a/migrations/0003_last.sql", "create table c();")
	git(t, dir, "add", "-A")
	git(t, dir, "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-q", "-m", "release")
	if got := editedSince(t, dir); got != nil {
		t.Errorf("before the first release: %q", got)
	}

	write("deploy/RELEASED", git(t, dir, "rev-parse", "HEAD"))
	write("services/a/migrations/0001_start.sql", "create table a(id int);")
	write("services/a/migrations/0004_new.sql", "create table d();")
	if err := os.Remove(filepath.Join(dir, "services/a/migrations/0003_last.sql")); err != nil {
		t.Fatal(err)
	}
	want := []string{"services/a/migrations/0001_start.sql", "services/a/migrations/0003_last.sql"}
	if got := editedSince(t, dir); !slices.Equal(got, want) {
		t.Errorf("edited = %q, want %q", got, want)
	}
}
