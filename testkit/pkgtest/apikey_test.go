package pkgtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/slotwise/slotwise/pkg/apikey"
	"github.com/slotwise/slotwise/pkg/web"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/proxy"
	"github.com/slotwise/slotwise/testkit/seed"
)

// keyTables are where each role looks keys up.
var keyTables = map[string]string{"slotwise_booking": "booking.api_keys", "slotwise_notifier": "booking.keys_for_notifier"}

// gate is a guard in front of a handler that answers 200 and tells the key's id.
type gate struct {
	t       *testing.T
	db      *dbtest.DB
	guard   *apikey.Guard
	handler http.Handler
	counts  *prometheus.Registry
	logs    *observer.ObservedLogs
}

func newGate(t *testing.T, db *dbtest.DB, pool *pgxpool.Pool, table string, scope apikey.Scope) *gate {
	t.Helper()
	keys, err := apikey.In(pool, table)
	if err != nil {
		t.Fatal(err)
	}
	clients, err := web.Trust("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zapcore.DebugLevel)
	g := &gate{t: t, db: db, counts: prometheus.NewRegistry(), logs: logs}
	g.guard = apikey.NewGuard(keys, clients, web.NewRefused(g.counts, apikey.Reasons...), zap.New(core))
	g.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		principal, problem := g.guard.Check(r, scope)
		if problem != nil {
			problem.Write(w)
			return
		}
		fmt.Fprint(w, principal.Key)
	})
	return g
}

// ask sends a request of a client with the values of Authorization.
func (g *gate) ask(client string, authorization ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(g.t.Context(), http.MethodGet, "/", http.NoBody)
	request.RemoteAddr = "127.0.0.1:5000"
	request.Header.Set("X-Forwarded-For", client)
	request.Header["Authorization"] = authorization
	answer := httptest.NewRecorder()
	g.handler.ServeHTTP(answer, request)
	return answer
}

func (g *gate) with(key string) *httptest.ResponseRecorder {
	return g.ask("203.0.113.5", "Bearer "+key)
}

func (g *gate) refused(reason string) (n float64) {
	g.t.Helper()
	families, err := g.counts.Gather()
	if err != nil {
		g.t.Fatal(err)
	}
	for _, m := range families[0].GetMetric() {
		if m.GetLabel()[0].GetValue() == reason {
			return m.GetCounter().GetValue()
		}
	}
	g.t.Fatalf("nobody counts %s", reason)
	return 0
}

func (g *gate) exec(sql string, args ...any) {
	g.t.Helper()
	if _, err := g.db.Admin.Exec(g.t.Context(), sql, args...); err != nil {
		g.t.Fatal(err)
	}
}

func slugOf(t *testing.T, answer *httptest.ResponseRecorder) string {
	t.Helper()
	var p web.Problem
	if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil {
		t.Fatalf("%s: %v", answer.Body, err)
	}
	if p.Status != answer.Code || answer.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v: %s", answer.Code, answer.Header(), answer.Body)
	}
	return strings.TrimPrefix(p.Type, "/problems/")
}

// What is refused, with which answer, by both services.
func TestKeysAreChecked(t *testing.T) {
	t.Parallel()
	for role, table := range keyTables {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			db := dbtest.New(t)
			g := newGate(t, db, db.Pool(role), table, apikey.BookingsRead)
			good := seed.Key(t, db.Admin, []apikey.Scope{apikey.BookingsRead})
			admin := seed.Key(t, db.Admin, nil)
			other := seed.Key(t, db.Admin, []apikey.Scope{apikey.BookingsWrite, apikey.Webhooks})
			revoked, expired, lives := seed.Key(t, db.Admin, nil), seed.Key(t, db.Admin, nil), seed.Key(t, db.Admin, nil)
			g.exec(`update booking.api_keys set revoked_at = now() where hash = sha256($1::text::bytea)`, revoked)
			g.exec(`update booking.api_keys set expires_at = now() where hash = sha256($1::text::bytea)`, expired)
			g.exec(`update booking.api_keys set expires_at = now() + interval '1 hour' where hash = sha256($1::text::bytea)`, lives)
			stranger, _ := apikey.New()

			for _, key := range []string{good, admin, lives} {
				if r := g.with(key); r.Code != http.StatusOK || !strings.HasPrefix(r.Body.String(), "key_") {
					t.Errorf("a good key: %d %s", r.Code, r.Body)
				}
			}
			if r := g.ask("203.0.113.5", "bearer   "+good); r.Code != http.StatusOK { // the scheme has no case, RFC 9110 §11.1
				t.Errorf("bearer: %d", r.Code)
			}
			const challenge = `Bearer realm="slotwise"`
			for _, c := range []struct {
				what          string
				authorization []string
				status        int
				slug, reason  string
				challenge     string
			}{
				{"no key", nil, 401, "key-required", "key-missing", challenge},
				{"another scheme", []string{"Basic YTpi"}, 401, "key-required", "key-missing", challenge},
				{"an empty token", []string{"Bearer"}, 401, "key-invalid", "key-malformed", challenge + `, error="invalid_token"`},
				{"a typing fault", []string{"Bearer " + good[:43] + "9"}, 401, "key-invalid", "key-malformed", challenge + `, error="invalid_token"`},
				{"two keys", []string{"Bearer " + good, "Bearer " + admin}, 401, "key-invalid", "key-malformed", challenge + `, error="invalid_token"`},
				{"unknown", []string{"Bearer " + stranger}, 401, "key-invalid", "key-unknown", challenge + `, error="invalid_token"`},
				{"revoked", []string{"Bearer " + revoked}, 401, "key-invalid", "key-revoked", challenge + `, error="invalid_token"`},
				{"expired", []string{"Bearer " + expired}, 401, "key-invalid", "key-expired", challenge + `, error="invalid_token"`},
				{"another scope", []string{"Bearer " + other}, 403, "scope-missing", "scope", challenge + `, error="insufficient_scope", scope="bookings:read"`},
			} {
				before := g.refused(c.reason)
				r := g.ask("203.0.113.5", c.authorization...)
				if r.Code != c.status || slugOf(t, r) != c.slug || r.Header().Get("WWW-Authenticate") != c.challenge {
					t.Errorf("%s: %d %v %s", c.what, r.Code, r.Header(), r.Body)
				}
				if n := g.refused(c.reason); n != before+1 {
					t.Errorf("%s: counted %v times", c.what, n-before)
				}
			}
			for _, line := range g.logs.All() {
				if text := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(text, "slw_") {
					t.Errorf("a key is logged: %s", text)
				}
			}
		})
	}
}

// A key works until the commit that revokes it, and not for one request more.
func TestRevokedAtOnce(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	g := newGate(t, db, db.Pool("slotwise_notifier"), keyTables["slotwise_notifier"], apikey.Webhooks)
	key := seed.Key(t, db.Admin, []apikey.Scope{apikey.Webhooks})
	for range 5 {
		if r := g.with(key); r.Code != http.StatusOK {
			t.Fatal(r.Code, r.Body)
		}
	}
	g.exec(`update booking.api_keys set revoked_at = now()`)
	if r := g.with(key); r.Code != http.StatusUnauthorized {
		t.Errorf("revoked: %d", r.Code)
	}
}

// Who sends wrong keys is told to wait; nobody else is, not even at the same address.
func TestWrongKeysAreLimited(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	g := newGate(t, db, db.Pool("slotwise_booking"), keyTables["slotwise_booking"], apikey.BookingsRead)
	good := seed.Key(t, db.Admin, nil)
	limited := 0
	for i := range 60 {
		wrong, _ := apikey.New()
		if i%2 == 0 {
			wrong = "slw_guess"
		}
		switch r := g.with(wrong); {
		case r.Code == http.StatusTooManyRequests && slugOf(t, r) == "too-many-requests" && r.Header().Get("Retry-After") != "":
			limited++
		case r.Code != http.StatusUnauthorized || limited > 5: // a few may come through while the test is slow
			t.Fatalf("%d: %d %s", i, r.Code, r.Body)
		case i >= 50:
			t.Errorf("wrong key %d is not limited", i)
		}
	}
	if limited == 0 || g.refused("key-rate") != float64(limited) {
		t.Errorf("%d limited, %v counted", limited, g.refused("key-rate"))
	}
	if r := g.with(good); r.Code != http.StatusOK {
		t.Errorf("a right key of the same address: %d", r.Code)
	}
	if r := g.ask("203.0.113.6", "Bearer slw_guess"); r.Code != http.StatusUnauthorized {
		t.Errorf("another address: %d", r.Code)
	}
	g.exec(`update booking.api_keys set revoked_at = now()`)
	for range 30 {
		g.ask("203.0.113.7", "Bearer "+good)
	}
	if lines := g.logs.FilterMessage("request refused").Len(); float64(lines) != g.refused("key-revoked") || lines >= 30 {
		t.Errorf("%d lines tell of a revoked key, %v answers did", lines, g.refused("key-revoked"))
	}
}

// The last use is noted behind the request's back, once a minute, by both services.
func TestLastUse(t *testing.T) {
	t.Parallel()
	for role, table := range keyTables {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			db := dbtest.New(t)
			g := newGate(t, db, db.Pool(role), table, apikey.BookingsRead)
			key := seed.Key(t, db.Admin, nil)
			seed.Key(t, db.Admin, nil) // which nobody uses
			lastUse := func() (at *time.Time) {
				t.Helper()
				if err := db.Admin.QueryRow(t.Context(), `select max(last_used_at) from booking.api_keys`).Scan(&at); err != nil {
					t.Fatal(err)
				}
				return at
			}
			// Somebody holds the row: requests don't wait for it.
			tx, err := db.Admin.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(t.Context()) //nolint:errcheck // rolled back below
			if _, err := tx.Exec(t.Context(), `select from booking.api_keys for update`); err != nil {
				t.Fatal(err)
			}
			stop := background(t, g.guard.Run)
			if r := g.with(key); r.Code != http.StatusOK {
				t.Fatal(r.Code, r.Body)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the use is noted", func() bool { g.with(key); return lastUse() != nil })
			first := *lastUse()
			for range 20 {
				g.with(key)
			}
			stop() // which writes what waits
			if again := lastUse(); !again.Equal(first) {
				t.Errorf("noted again after %v", again.Sub(first))
			}

			g.exec(`update booking.api_keys set last_used_at = now() - interval '61 seconds' where last_used_at is not null`)
			background(t, g.guard.Run)
			g.with(key)
			eventually(t, "a later use is noted", func() bool { return time.Since(*lastUse()) < 30*time.Second })
			var used int
			if err := db.Admin.QueryRow(t.Context(), `select count(last_used_at) from booking.api_keys`).Scan(&used); err != nil || used != 1 {
				t.Errorf("%d keys were used, %v", used, err)
			}
		})
	}
}

// A request that is refused is a use as well: who sends it has the key.
func TestLastUseOfRefusedRequests(t *testing.T) {
	t.Parallel()
	for role, table := range keyTables {
		for change, code := range map[string]int{
			`set scopes = '{webhooks}'`: http.StatusForbidden,
			`set revoked_at = now()`:    http.StatusUnauthorized,
			`set expires_at = now()`:    http.StatusUnauthorized,
		} {
			t.Run(role+" "+change, func(t *testing.T) {
				t.Parallel()
				db := dbtest.New(t)
				g := newGate(t, db, db.Pool(role), table, apikey.BookingsRead)
				key := seed.Key(t, db.Admin, nil)
				g.exec(`update booking.api_keys ` + change)
				stop := background(t, g.guard.Run)
				if r := g.with(key); r.Code != code {
					t.Fatal(r.Code, r.Body)
				}
				stop() // which writes what waits
				var used int
				if err := db.Admin.QueryRow(t.Context(), `select count(last_used_at) from booking.api_keys`).Scan(&used); err != nil || used != 1 {
					t.Errorf("%d keys were used, %v", used, err)
				}
			})
		}
	}
}

// PostgreSQL away is no verdict on a key.
func TestKeysWithPostgreSQLAway(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	p := proxy.New(t, db.URL("slotwise_booking"))
	g := newGate(t, db, open(t, p.URL(db.URL("slotwise_booking")), ""), keyTables["slotwise_booking"], apikey.BookingsRead)
	key := seed.Key(t, db.Admin, nil)
	if r := g.with(key); r.Code != http.StatusOK {
		t.Fatal(r.Code, r.Body)
	}
	p.Refuse()
	p.Cut()
	r := g.with(key)
	if r.Code != http.StatusServiceUnavailable || slugOf(t, r) != "unavailable" || r.Header().Get("Retry-After") == "" {
		t.Errorf("away: %d %v %s", r.Code, r.Header(), r.Body)
	}
	if g.logs.FilterMessage("an API key can't be checked").Len() == 0 {
		t.Error("nobody is told")
	}
	p.Accept()
	eventually(t, "keys are checked again", func() bool { return g.with(key).Code == http.StatusOK })
}

func TestKeysOfNoTable(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "api_keys", "booking.api_keys where true", `"booking".api_keys`} {
		if _, err := apikey.In(nil, name); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}
