package dbtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/jackc/pgx/v5"

	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/testkit/checkout"
)

// source is what a template is made from, as it lies in this checkout.
type source struct {
	root    fs.FS
	roles   string
	schemas []string // each named like its service, in the order in which they are migrated
	hash    string
}

func readSource() (*source, error) {
	dir, err := checkout.Root()
	if err != nil {
		return nil, err
	}
	return readSourceIn(os.DirFS(dir))
}

func readSourceIn(root fs.FS) (*source, error) {
	s := &source{root: root}
	folders, err := fs.Glob(s.root, "services/*/migrations") // in order: booking before notifier
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	sum := sha256.New()
	for _, pattern := range []string{"deploy/postgres/roles.sql", "services/*/migrations/*.sql", "pkg/pgdb/migrate.go", "pkg/pgdb/concurrently.go"} {
		files, err := fs.Glob(s.root, pattern)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", pattern, err)
		}
		for _, file := range files {
			text, err := fs.ReadFile(s.root, file)
			if err != nil {
				return nil, fmt.Errorf("read what makes a test database: %w", err)
			}
			fmt.Fprintf(sum, "%s %d\n%s", file, len(text), text)
			if path.Base(file) == "roles.sql" {
				s.roles = string(text)
			}
		}
	}
	for _, folder := range folders {
		s.schemas = append(s.schemas, path.Base(path.Dir(folder)))
	}
	if s.roles == "" || len(s.schemas) == 0 {
		return nil, errors.New("no deploy/postgres/roles.sql, or no services/*/migrations, in this checkout")
	}
	s.hash = fmt.Sprintf("%x", sum.Sum(nil))[:16]
	return s, nil
}

func (s *source) applyRoles(ctx context.Context, admin *pgx.Conn) error {
	if _, err := admin.Exec(ctx, s.roles); err != nil {
		return fmt.Errorf("run roles.sql: %w", err)
	}
	return nil
}

func (s *source) migrate(ctx context.Context, owner *pgx.Conn, schema string) error {
	files, err := fs.Sub(s.root, "services/"+schema+"/migrations")
	if err != nil {
		return fmt.Errorf("open migrations: %w", err)
	}
	return pgdb.Migrate(ctx, owner, schema, files)
}
