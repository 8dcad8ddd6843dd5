package seed

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/pkg/apikey"
)

// Key makes an API key in pool's database, which is the administrator's, and returns its text.
// Without scopes it is an admin's, without resources it is for all.
func Key(tb testing.TB, pool *pgxpool.Pool, scopes []apikey.Scope, resources ...string) string {
	tb.Helper()
	if len(scopes) == 0 {
		scopes = []apikey.Scope{apikey.Admin}
	}
	words := make([]string, 0, len(scopes)) // which every exec mode of pgx can send
	for _, scope := range scopes {
		words = append(words, string(scope))
	}
	text, hash := apikey.New()
	_, err := pool.Exec(tb.Context(), `
		insert into booking.api_keys (id, hash, name, scopes, resources)
		values ($1, $2, 'test', $3, $4)`, apikey.NewID(), hash[:], words, resources)
	if err != nil {
		tb.Fatalf("seed: an API key: %v", err)
	}
	return text
}
