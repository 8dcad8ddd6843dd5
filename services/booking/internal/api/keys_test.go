package api_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/apikey"
	"github.com/slotwise/slotwise/pkg/web"
	"github.com/slotwise/slotwise/services/booking/internal/api"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/testkit/seed"
	"go.uber.org/zap"
)

// openRoutes need no key: the contract, and what customers reach by the tokens in their mails.
var openRoutes = []string{"GET /b/{token}", "GET /b/{token}/cancel", "GET /b/{token}/move", "GET /openapi.yaml", "POST /b/{token}/cancel", "POST /b/{token}/move"}

var pathParameter = regexp.MustCompile(`\{[a-z]+\}`)

// No route answers without a key that may ask for it, and the contract names which. The routes
// are the router's own.
func TestNoRouteAnswersWithoutAKey(t *testing.T) {
	t.Parallel()
	d, contract := open(t), readContract(t)
	b := d.book(nil).booking(t)
	stranger, _ := apikey.New()
	var without []string
	for _, route := range routesOf(t) {
		method, pattern, _ := strings.Cut(route, " ")
		needs := contract.Operation(method, pattern)["security"]
		path := pathParameter.ReplaceAllString(pattern, b.ID)
		if slices.Contains(openRoutes, route) {
			without = append(without, route)
			if list, ok := needs.([]any); !ok || len(list) != 0 {
				t.Errorf("%s is open, the contract says %v", route, needs)
			}
			if r := d.do(method, path, "{}"); r.status == http.StatusUnauthorized {
				t.Errorf("%s wants a key", route)
			}
			continue
		}
		scope := apikey.BookingsWrite
		if method == http.MethodGet {
			scope = apikey.BookingsRead
			if r := d.with("").do(http.MethodHead, path, ""); r.status != 401 {
				t.Errorf("HEAD %s: %d", pattern, r.status)
			}
		}
		if got := fmt.Sprint(needs); got != fmt.Sprintf("[map[APIKey:[%s]]]", scope) {
			t.Errorf("%s needs %s, the contract says %s", route, scope, got)
		}
		others := slices.DeleteFunc(slices.Clone(apikey.Scopes), func(s apikey.Scope) bool { return s == scope || s == apikey.Admin })
		for _, c := range []struct {
			key    string
			status int
			slug   string
		}{
			{"", 401, "key-required"},
			{"slw_x", 401, "key-invalid"},
			{stranger, 401, "key-invalid"},
			{seed.Key(t, d.db.Admin, others), 403, "scope-missing"},
		} {
			r := d.with(c.key).do(method, path, "{}", "If-Match", "*")
			if r.status != c.status || r.slug() != c.slug || r.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %q: %d %s", route, c.key, r.status, r.body)
			}
			contract.Check(t, method, pattern, r.status, r.header, r.body)
		}
		if r := d.with(seed.Key(t, d.db.Admin, []apikey.Scope{scope})).do(method, path, "{}", "If-Match", `"7"`); r.status == 401 || r.status == 403 {
			t.Errorf("%s with its key: %d %s", route, r.status, r.body)
		}
	}
	slices.Sort(without)
	if !slices.Equal(without, openRoutes) {
		t.Errorf("open are %v, want %v", without, openRoutes)
	}
	if n := d.count(`select max(version) from booking.bookings`); n != 1 {
		t.Errorf("version %d", n)
	}
}

// A key for some resources books these only. Other bookings are not there for it: their answers
// are, byte for byte, those for an id that nobody has.
func TestAKeyForSomeResources(t *testing.T) {
	t.Parallel()
	d, contract := open(t), readContract(t)
	room, hall := d.book(nil).booking(t), d.book(map[string]any{"resource": "hall"}).booking(t)
	key := d.with(seed.Key(t, d.db.Admin, []apikey.Scope{apikey.BookingsRead, apikey.BookingsWrite}, "hall", "old"))
	for _, resource := range []string{"room-7", "half-hours", "no-such"} {
		r := key.book(map[string]any{"resource": resource, "start": "2040-04-01T10:00:00Z"})
		if r.status != 403 || r.slug() != "resource-forbidden" {
			t.Errorf("%s: %d %s", resource, r.status, r.body)
		}
		contract.Check(t, http.MethodPost, "/v1/bookings", r.status, r.header, r.body)
	}
	const nobodys = "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"
	for _, c := range []struct{ method, path, body string }{
		{http.MethodGet, "", ""},
		{http.MethodPatch, "", `{"note":"x"}`},
		{http.MethodPatch, "", `{"seats":2}`},
		{http.MethodPost, "/reschedule", `{"start":"2040-05-01T10:00:00Z"}`},
		{http.MethodPost, "/cancel", ""},
	} {
		for _, match := range []string{"*", `"1"`, `"9"`} {
			hidden := key.do(c.method, "/v1/bookings/"+room.ID+c.path, c.body, "If-Match", match, "Idempotency-Key", "one")
			none := key.do(c.method, "/v1/bookings/"+nobodys+c.path, c.body, "If-Match", match)
			if hidden.status != 404 || !bytes.Equal(hidden.body, none.body) || !sameHeaders(hidden, none) {
				t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, hidden.status, hidden.body, none.status, none.body)
			}
			d.exec(`delete from booking.idempotency_keys`)
		}
		own := key.do(c.method, "/v1/bookings/"+hall.ID+c.path, c.body, "If-Match", "*")
		if own.status != 200 {
			t.Errorf("its own, %s %s: %d %s", c.method, c.path, own.status, own.body)
		}
	}
	if n := d.count(`select version from booking.bookings where resource = 'room-7'`); n != 1 {
		t.Errorf("version %d", n)
	}
}

// What one key was answered is not given to another under the same Idempotency-Key.
func TestAnswersAreNotSharedBetweenKeys(t *testing.T) {
	t.Parallel()
	d := open(t)
	scopes := []apikey.Scope{apikey.BookingsWrite}
	one, two := d.with(seed.Key(t, d.db.Admin, scopes)), d.with(seed.Key(t, d.db.Admin, scopes, "hall"))
	body := map[string]any{"resource": "hall"}
	first, other := one.book(body, "Idempotency-Key", "order-1").booking(t), two.book(body, "Idempotency-Key", "order-1").booking(t)
	if first.ID == other.ID {
		t.Fatal("one key got another's answer")
	}
	for _, c := range []struct {
		who  *door
		want string
	}{{one, first.ID}, {two, other.ID}} {
		if again := c.who.book(body, "Idempotency-Key", "order-1").booking(t); again.ID != c.want {
			t.Errorf("again: %s, want %s", again.ID, c.want)
		}
	}

	// Stored by the last release, when nobody needed a key.
	d.exec(`update booking.idempotency_keys set caller = null where key = 'order-1'`)
	third := d.with(seed.Key(t, d.db.Admin, scopes, "hall"))
	if again := third.book(body, "Idempotency-Key", "order-1").booking(t); again.ID != first.ID {
		t.Errorf("the request of before is done again: %s, want %s", again.ID, first.ID)
	}
	cancel := "/v1/bookings/" + first.ID + "/cancel"
	one.do(http.MethodPost, cancel, "", "If-Match", "*", "Idempotency-Key", "order-2").booking(t)
	d.exec(`update booking.idempotency_keys set caller = null where key = 'order-2'`)
	if r := d.with(seed.Key(t, d.db.Admin, scopes, "room-7")).do(http.MethodPost, cancel, "", "If-Match", "*", "Idempotency-Key", "order-2"); r.status != 404 {
		t.Errorf("a key for another resource is given %d %s", r.status, r.body)
	}
	if r := one.do(http.MethodPost, cancel, "", "If-Match", `"1"`, "Idempotency-Key", "order-2"); r.status != 200 {
		t.Errorf("repeated after the upgrade: %d %s", r.status, r.body)
	}
}

// Who sends many wrong keys is told to wait; who asks too often too, at every path.
func TestLimitsByAddress(t *testing.T) {
	t.Parallel()
	d, contract := open(t), readContract(t)
	path := "/v1/bookings/" + d.book(nil).booking(t).ID
	var limited reply
	for range 60 {
		if r := d.with("slw_guess").do(http.MethodGet, path, ""); r.status == 429 {
			limited = r
		}
	}
	if limited.slug() != "too-many-requests" || limited.header.Get("Retry-After") == "" {
		t.Errorf("wrong keys: %d %s", limited.status, limited.body)
	}
	contract.Check(t, http.MethodGet, "/v1/bookings/{id}", limited.status, limited.header, limited.body)
	if r := d.do(http.MethodGet, path, ""); r.status != 200 {
		t.Errorf("the right key: %d %s", r.status, r.body)
	}
	if r := d.with("slw_guess").do(http.MethodGet, path, "", "X-Forwarded-For", "203.0.113.5"); r.status != 401 {
		t.Errorf("another address: %d %s", r.status, r.body)
	}

	doors := shut(t, d.db.Pool("slotwise_booking"), prometheus.NewRegistry(), zap.NewNop())
	doors.Throttle.Limiter = web.NewLimiter(0.001, 1)
	server := httptest.NewServer(api.New(app.Bookings{}, doors, zap.NewNop(), prometheus.NewRegistry()))
	t.Cleanup(server.Close)
	d.url = server.URL
	for i, path := range []string{"/openapi.yaml", "/openapi.yaml", path, "/b/x", "/nothing"} {
		r := d.do(http.MethodGet, path, "")
		if want := i > 0; want != (r.status == 429 && r.slug() == "too-many-requests" && r.header.Get("Retry-After") != "") {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	page := d.browse("/b/x", nil)
	page.wantPage(t, 429, "That was too often")
	if page.header.Get("Retry-After") == "" {
		t.Error("the page has no Retry-After")
	}
	if r := d.do(http.MethodGet, "/openapi.yaml", "", "X-Forwarded-For", "203.0.113.5"); r.status != 200 {
		t.Errorf("another address: %d %s", r.status, r.body)
	}
}

// B153: who is refused is found in the log by the key's id, and no key is ever there, nor in an
// answer.
func TestB153RefusalsAreLoggedWithoutTheKey(t *testing.T) {
	t.Parallel()
	d := open(t)
	key := seed.Key(t, d.db.Admin, nil)
	b := d.with(key).book(nil).booking(t)
	d.exec(`update booking.api_keys set revoked_at = now() where hash = sha256($1::text::bytea)`, key)
	r := d.with(key).do(http.MethodGet, "/v1/bookings/"+b.ID, "")
	if r.status != 401 || strings.Contains(string(r.body), key[4:]) {
		t.Errorf("%d %s", r.status, r.body)
	}
	d.exec(`alter table booking.api_keys rename to api_keys_gone`)
	away := d.do(http.MethodGet, "/v1/bookings/"+b.ID, "")
	if away.status != 503 || away.slug() != "unavailable" || away.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", away.status, away.body)
	}
	refused, broken := d.logs.FilterMessage("request refused").All(), d.logs.FilterMessage("an API key can't be checked").All()
	if len(refused) != 1 || !strings.HasPrefix(fmt.Sprint(refused[0].ContextMap()["api_key"]), "key_") || refused[0].ContextMap()["reason"] != "key-revoked" {
		t.Errorf("logged %v", refused)
	}
	if len(broken) != 1 || d.logs.Len() != 2 {
		t.Errorf("logged %v", d.logs.All())
	}
	for _, line := range d.logs.All() {
		if text := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(text, "slw_") || strings.Contains(text, key[4:]) {
			t.Errorf("logged %s", text)
		}
	}
}
