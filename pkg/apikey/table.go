package apikey

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Table is where keys are looked up: booking.api_keys, or another service's view of it. Make
// one with [In].
type Table struct {
	db          *pgxpool.Pool
	find, touch string // SQL
}

var tableName = regexp.MustCompile(`^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$`)

// In returns the keys in the table or view of that name, schema.table in plain lower-case
// words.
func In(db *pgxpool.Pool, name string) (Table, error) {
	if !tableName.MatchString(name) {
		return Table{}, fmt.Errorf("keys %q are not of the form schema.table", name)
	}
	return Table{
		db: db,
		find: `
			select id, scopes, resources, revoked_at is not null, coalesce(expires_at <= clock_timestamp(), false),
			       coalesce(last_used_at < clock_timestamp() - interval '1 minute', true)
			from ` + name + `
			where hash = $1`,
		touch: `
			update ` + name + `
			set last_used_at = clock_timestamp()
			where id in (
			    select id from ` + name + `
			    where id = any ($1) and coalesce(last_used_at < clock_timestamp() - interval '1 minute', true)
			    for no key update skip locked)`,
	}, nil
}

// entry is what is known of a key.
type entry struct {
	Principal
	revoked, expired bool
	stale            bool // its last use was noted more than a minute ago
}

// lookup finds a key by its hash.
func (t Table) lookup(ctx context.Context, hash Hash) (e entry, known bool, err error) {
	err = t.db.QueryRow(ctx, t.find, hash[:]).Scan(&e.Key, &e.Scopes, &e.Resources, &e.revoked, &e.expired, &e.stale)
	if errors.Is(err, pgx.ErrNoRows) {
		return entry{}, false, nil
	}
	if err != nil {
		return entry{}, false, fmt.Errorf("look up the API key: %w", err)
	}
	return e, true, nil
}

// note writes that the keys were used just now. Of those that somebody else has locked, that
// one notes the same.
func (t Table) note(ctx context.Context, ids []string) error {
	if _, err := t.db.Exec(ctx, t.touch, ids); err != nil {
		return fmt.Errorf("note the use of API keys: %w", err)
	}
	return nil
}
