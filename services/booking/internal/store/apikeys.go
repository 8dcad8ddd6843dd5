package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/apikey"
)

// APIKey is what is shown of an API key. Its text is not kept.
type APIKey struct {
	ID        string
	Name      string
	Scopes    []apikey.Scope
	Resources []string // nil: all
	Created   time.Time
	Expires   time.Time // zero: never
	Expired   bool
	Revoked   time.Time // zero: it was not
	LastUsed  time.Time // to a minute; zero: never
}

// ErrNoAPIKey says that there is no API key of an id.
var ErrNoAPIKey = errors.New("there is no API key of this id")

const insertAPIKey = `
	insert into booking.api_keys (id, hash, name, scopes, resources, expires_at)
	values ($1, $2, $3, $4, $5, case when $6::int > 0 then clock_timestamp() + make_interval(days => $6::int) end)`

// MakeAPIKey keeps a new key with k's name, scopes and resources, and returns its id. It
// expires after so many days; 0: never.
func (s *Store) MakeAPIKey(ctx context.Context, hash apikey.Hash, k APIKey, days int) (id string, err error) {
	id = apikey.NewID()
	scopes := make([]string, 0, len(k.Scopes)) // which every exec mode of pgx can send
	for _, scope := range k.Scopes {
		scopes = append(scopes, string(scope))
	}
	if _, err := s.db.Exec(ctx, insertAPIKey, id, hash[:], k.Name, scopes, k.Resources, days); err != nil {
		return "", classify(fmt.Errorf("make API key: %w", err))
	}
	return id, nil
}

const listAPIKeys = `
	select id, name, scopes, resources, created_at, expires_at, coalesce(expires_at <= clock_timestamp(), false), revoked_at, last_used_at
	from booking.api_keys
	order by created_at, id`

// APIKeys returns all keys, the oldest first.
func (s *Store) APIKeys(ctx context.Context) ([]APIKey, error) {
	rows, err := s.db.Query(ctx, listAPIKeys)
	if err != nil {
		return nil, classify(fmt.Errorf("read API keys: %w", err))
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (APIKey, error) {
		var k APIKey
		var expires, revoked, used *time.Time
		err := row.Scan(&k.ID, &k.Name, &k.Scopes, &k.Resources, &k.Created, &expires, &k.Expired, &revoked, &used)
		k.Expires, k.Revoked, k.LastUsed = orZero(expires), orZero(revoked), orZero(used)
		return k, err
	})
	if err != nil {
		return nil, classify(fmt.Errorf("read API keys: %w", err))
	}
	return all, nil
}

// revokeAPIKey keeps the first time.
const revokeAPIKey = `
	update booking.api_keys
	set revoked_at = coalesce(revoked_at, clock_timestamp())
	where id = $1
	returning name, revoked_at`

// RevokeAPIKey ends the key, from now on and for good, and returns its name and since when it
// is revoked. It may be [ErrNoAPIKey].
func (s *Store) RevokeAPIKey(ctx context.Context, id string) (name string, since time.Time, err error) {
	err = s.db.QueryRow(ctx, revokeAPIKey, id).Scan(&name, &since)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", time.Time{}, ErrNoAPIKey
	}
	if err != nil {
		return "", time.Time{}, classify(fmt.Errorf("revoke API key: %w", err))
	}
	return name, since.UTC(), nil
}
