package endpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/pkg/ops/message"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/services/notifier/internal/webhook"
)

// DefaultConcurrency is how many deliveries run at once to an endpoint that does not say.
const DefaultConcurrency = 4

// DefaultOverlap is how long an old secret still signs, unless somebody says otherwise.
const DefaultOverlap = 24 * time.Hour

var (
	// ErrNotFound says that there is no such endpoint or delivery, or none that the asker sees.
	ErrNotFound = errors.New("there is no such endpoint or delivery")
	// ErrChanged says that the endpoint is not as the asker saw it last.
	ErrChanged = errors.New("the endpoint has changed")
)

// StateError says why something can't be done as things stand. Its text may be shown.
type StateError struct{ Text string }

// Error is the text.
func (e *StateError) Error() string { return e.Text }

// Store is where endpoints are. Its methods may be called from many goroutines.
type Store struct {
	pool  *pgxpool.Pool
	rules webhook.Rules
	wake  func() // says that there may be something to deliver
}

// New returns the store in pool's database. URLs must keep to the rules; wake is called when
// something was planned.
func New(pool *pgxpool.Pool, rules webhook.Rules, wake func()) *Store {
	return &Store{pool: pool, rules: rules, wake: wake}
}

// Viewer reports whether the asker may see an endpoint for these resources (nil: for all).
type Viewer func(resources []string) bool

// Everybody sees all endpoints.
func Everybody([]string) bool { return true }

// endpointSQL is a [message.Endpoint] as JSON; times in it are in UTC where timezone is. What
// follows is a condition.
const endpointSQL = `
	select to_jsonb(e) || jsonb_build_object('secrets', coalesce((
	           select jsonb_agg(jsonb_build_object('created_at', x.created_at, 'expires_at', x.expires_at) order by x.expires_at desc nulls first)
	           from notifier.endpoint_secrets x
	           where x.endpoint = e.id and (x.expires_at is null or x.expires_at > clock_timestamp())), '[]'))
	from notifier.endpoints e
	where `

// Create makes an endpoint and returns it with its secret, which is never shown again. What is
// wrong with the settings is an [*InvalidError].
func (s *Store) Create(ctx context.Context, settings Settings, operator string) (e message.Endpoint, secret string, err error) {
	if faults := settings.check(s.rules); len(faults) > 0 {
		return e, "", &InvalidError{faults}
	}
	err = s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var name string
		asked := map[string]any{
			"url": settings.URL, "description": orNil(settings.Description), "owner": orNil(settings.Owner), "event_types": settings.EventTypes,
			"resources": settings.Resources, "concurrency": settings.Concurrency, "rate": settings.Rate,
		}
		if err := tx.QueryRow(ctx, `select id, secret from notifier.create_endpoint($1, $2)`, asText(asked), operator).Scan(&name, &secret); err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		e, err = read(ctx, tx, name)
		return err
	})
	if err != nil {
		return e, "", fmt.Errorf("create endpoint: %w", err)
	}
	return e, secret, nil
}

// Get returns an endpoint that is not deleted.
func (s *Store) Get(ctx context.Context, name string, sees Viewer) (e message.Endpoint, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		e, err = visible(ctx, tx, name, sees)
		return err
	})
	if err != nil {
		return e, fmt.Errorf("get endpoint: %w", err)
	}
	return e, nil
}

// Find returns an endpoint though it is deleted, for who runs the installation.
func (s *Store) Find(ctx context.Context, name string) (e message.Endpoint, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		e, err = read(ctx, tx, name)
		return err
	})
	if err != nil {
		return e, fmt.Errorf("find endpoint: %w", err)
	}
	return e, nil
}

// List returns at most limit endpoints that sees lets through, in the order of ids, behind the
// id after; more says that there are others. Deleted ones are left out unless they are asked for.
func (s *Store) List(ctx context.Context, after string, limit int, deleted bool, sees Viewer) (list []message.Endpoint, more bool, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, endpointSQL+`e.id > $1 and (e.deleted_at is null or $2) order by e.id`, after, deleted) // the collector reports this error too
		all, err := pgx.CollectRows(rows, pgx.RowTo[message.Endpoint])
		if err != nil {
			return fmt.Errorf("read endpoints: %w", err)
		}
		list = slices.DeleteFunc(all, func(e message.Endpoint) bool { return !sees(e.Resources) })
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("list endpoints: %w", err)
	}
	if len(list) > limit {
		return list[:limit], true, nil
	}
	return list, false, nil
}

// Change is what is to be different.
type Change struct {
	Set     func(*Settings)             // nil: nothing
	Enabled *bool                       // nil: as it is
	Match   func(message.Endpoint) bool // nil: whatever it is now
}

// Edit changes an endpoint and returns it as it is then. A change that changes nothing is not
// recorded.
func (s *Store) Edit(ctx context.Context, name string, c Change, sees Viewer, operator string) (e message.Endpoint, err error) {
	err = s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := lock(ctx, tx, name, false); err != nil {
			return err
		}
		old, err := visible(ctx, tx, name, sees)
		switch {
		case err != nil:
			return err
		case c.Match != nil && !c.Match(old):
			return ErrChanged
		}
		if c.Set != nil {
			if err := s.set(ctx, tx, old, c.Set, sees, operator); err != nil {
				return err
			}
		}
		if c.Enabled != nil {
			if _, err := turn(ctx, tx, name, *c.Enabled, "by "+operator, operator); err != nil {
				return err
			}
		}
		e, err = read(ctx, tx, name)
		return err
	})
	if err != nil {
		return e, fmt.Errorf("change endpoint: %w", err)
	}
	return e, nil
}

// ErrResources says that the asker may not see an endpoint for the resources that it asks for.
var ErrResources = errors.New("these resources are not the asker's")

// set writes new settings into an endpoint that is locked. A new url has not failed yet.
func (s *Store) set(ctx context.Context, tx pgx.Tx, old message.Endpoint, change func(*Settings), sees Viewer, operator string) error {
	was := Settings{old.URL, old.Description, old.Owner, old.EventTypes, old.Resources, old.Concurrency, old.Rate}
	now := was
	change(&now)
	fields := was.differs(now)
	if len(fields) == 0 {
		return nil
	}
	if faults := now.check(s.rules); len(faults) > 0 {
		return &InvalidError{faults}
	}
	if !sees(now.Resources) {
		return ErrResources
	}
	_, err := tx.Exec(ctx, `
		update notifier.endpoints e
		set url = $2, description = $3, owner = $4, event_types = $5, resources = $6, concurrency = $7, rate = $8,
		    failing_since = case when e.url = $2 then e.failing_since end,
		    changed_at = clock_timestamp()
		where e.id = $1`,
		old.ID, now.URL, orNil(now.Description), orNil(now.Owner), now.EventTypes, now.Resources, now.Concurrency, now.Rate)
	if err != nil {
		return err //nolint:wrapcheck // the caller's wrap says enough
	}
	_, err = tx.Exec(ctx, `select notifier.record('change endpoint', $1, $2, 1)`, asText(map[string]any{"endpoint": old.ID, "fields": fields}), operator)
	return err //nolint:wrapcheck // the caller's wrap says enough
}

// differs names the fields in which two settings differ.
func (s Settings) differs(other Settings) (fields []string) {
	same := func(a, b *int) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
	lists := func(a, b []string) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }
	for _, f := range []struct {
		name string
		same bool
	}{
		{"url", s.URL == other.URL},
		{"description", s.Description == other.Description},
		{"owner", s.Owner == other.Owner},
		{"event_types", lists(s.EventTypes, other.EventTypes)},
		{"resources", lists(s.Resources, other.Resources)},
		{"concurrency", s.Concurrency == other.Concurrency},
		{"rate", same(s.Rate, other.Rate)},
	} {
		if !f.same {
			fields = append(fields, f.name)
		}
	}
	return fields
}

// on runs step for an endpoint that the asker sees, and that stays so meanwhile.
func (s *Store) on(ctx context.Context, name string, sees Viewer, step func(context.Context, pgx.Tx) error) error {
	return s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := lockVisible(ctx, tx, name, sees); err != nil {
			return err
		}
		return step(ctx, tx)
	})
}

// change runs step in a transaction, and wakes who delivers.
func (s *Store) change(ctx context.Context, step func(context.Context, pgx.Tx) error) error {
	err := pgdb.InTx(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, utc); err != nil {
			return err //nolint:wrapcheck // the caller's wrap says enough
		}
		return step(ctx, tx)
	})
	if err == nil {
		s.wake()
	}
	return told(err)
}

// read runs step in a transaction that sees one state of the database and writes nothing.
func (s *Store) read(ctx context.Context, step func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, pgdb.TxTimeout)
	defer cancel()
	return told(pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, utc); err != nil {
			return err //nolint:wrapcheck // the caller's wrap says enough
		}
		return step(ctx, tx)
	}))
}

// utc is for times inside of JSON.
const utc = `set local timezone = 'UTC'`

// told makes of what the SQL functions raise the errors of this package.
func told(err error) error {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case ok && pgErr.Code == "P0002":
		return ErrNotFound
	case ok && pgErr.Code == "55000":
		return &StateError{pgErr.Message}
	}
	return err
}

func lock(ctx context.Context, tx pgx.Tx, name string, enabled bool) error {
	_, err := tx.Exec(ctx, `select notifier.lock_endpoint($1, $2)`, name, enabled)
	return err //nolint:wrapcheck // the caller's wrap says enough
}

// lockVisible locks the endpoint first: whose it is must not change any more.
func lockVisible(ctx context.Context, tx pgx.Tx, name string, sees Viewer) error {
	if err := lock(ctx, tx, name, false); err != nil {
		return err
	}
	_, err := visible(ctx, tx, name, sees)
	return err
}

// visible reads an endpoint that is not deleted and that the asker sees.
func visible(ctx context.Context, tx pgx.Tx, name string, sees Viewer) (message.Endpoint, error) {
	e, err := read(ctx, tx, name)
	if err == nil && (e.DeletedAt != nil || !sees(e.Resources)) {
		return message.Endpoint{}, ErrNotFound
	}
	return e, err
}

func read(ctx context.Context, tx pgx.Tx, name string) (message.Endpoint, error) {
	rows, _ := tx.Query(ctx, endpointSQL+`e.id = $1`, name) // the collector reports this error too
	e, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[message.Endpoint])
	if errors.Is(err, pgx.ErrNoRows) {
		return e, ErrNotFound
	}
	if err != nil {
		return e, fmt.Errorf("read endpoint: %w", err)
	}
	return e, nil
}
