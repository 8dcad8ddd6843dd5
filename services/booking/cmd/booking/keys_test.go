package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/apikey"
	"github.com/slotwise/slotwise/services/booking/internal/store"
	"github.com/slotwise/slotwise/testkit/dbtest"
)

var (
	keyLine = regexp.MustCompile(`(?m)^key  (slw_[a-z2-7]{40})$`)
	idLine  = regexp.MustCompile(`(?m)^id   (key_[a-z2-7]{16})$`)
)

// createdKey runs `keys create` and returns what it printed.
func createdKey(t *testing.T, e env, flags ...string) (id, key string) {
	t.Helper()
	out, err := once(t, e, "", append([]string{"keys", "create"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	ids, keys := idLine.FindStringSubmatch(out), keyLine.FindStringSubmatch(out)
	if ids == nil || keys == nil {
		t.Fatalf("printed\n%s", out)
	}
	return ids[1], keys[1]
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"auto", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			keysFromFirstToLast(t, mode)
		})
	}
}

func keysFromFirstToLast(t *testing.T, mode string) {
	t.Helper()
	db := dbtest.New(t)
	apply(t, db)
	e := env{"DATABASE_URL": db.URL("slotwise_booking"), "DATABASE_EXEC_MODE": mode}
	all, key := createdKey(t, e, "--name", "front desk", "--scopes", "bookings:read,bookings:write")
	some, _ := createdKey(t, e, "--name=kiosk", "--scopes=bookings:read", "--resources=room-7, course-pottery", "--days", "30")

	hash, err := apikey.Parse(key)
	if err != nil {
		t.Fatal(err)
	}
	var stored string
	if err := db.Admin.QueryRow(t.Context(), `select to_jsonb(k)::text from booking.api_keys k where hash = $1`, hash[:]).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(stored, key) || strings.Contains(stored, key[4:36]) {
		t.Errorf("the key itself is stored: %s", stored)
	}

	out, err := once(t, e, "", "keys", "list")
	if err != nil || strings.Contains(out, "slw_") || strings.Contains(out, "hash") {
		t.Errorf("list: %s%v", out, err)
	}
	for _, want := range []string{
		`(?m)^` + all + `  front desk  bookings:read,bookings:write  all +\S+Z  never +valid$`,
		`(?m)^` + some + `  kiosk +bookings:read +room-7,course-pottery  \S+Z  never +valid until \S+Z$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("list has no %s:\n%s", want, out)
		}
	}

	first, err := once(t, e, "", "keys", "revoke", all)
	if err != nil || !strings.HasPrefix(first, all+" (front desk) is revoked since ") {
		t.Errorf("revoke: %s%v", first, err)
	}
	if again, err := once(t, e, "", "keys", "revoke", all); err != nil || again != first {
		t.Errorf("again: %s%v", again, err)
	}
	if out, err = once(t, e, "", "keys", "list"); err != nil || !regexp.MustCompile(all+`.* revoked \S+Z`).MatchString(out) || strings.Count(out, "revoked") != 1 {
		t.Errorf("list: %s%v", out, err)
	}
}

func TestKeysWrongUsage(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	apply(t, db)
	e := env{"DATABASE_URL": db.URL("slotwise_booking")}
	for _, c := range [][2]string{
		{"keys", "keys create --name NAME --scopes LIST"},
		{"keys delete x", "keys revoke ID"},
		{"keys revoke", "keys revoke ID"},
		{"keys list x", "keys list"},
		{"keys create", "--name"},
		{"keys create --name n", "bookings:read,bookings:write,webhooks,admin"},
		{"keys create --scopes admin", "--name"},
		{"keys create --name n --scopes ,", "bookings:read,bookings:write,webhooks,admin"},
		{"keys create --name n --scopes x", `no scope "x"; there are bookings:read,`},
		{"keys create --nam n", "not defined: -nam"},
		{"keys create --name n --scopes a b", `"b" is not expected`},
		{"keys create --name n --scopes admin b", `"b" is not expected`},
		{"keys create --name n --scopes admin --resources=", "--resources is empty"},
		{"keys create --name n --scopes admin --days 0", "from 1 to 3650"},
		{"keys create --name n --scopes admin --days soon", "days"},
		{"keys create --name " + strings.Repeat("x", 101) + " --scopes admin", "1 to 100 characters"},
	} {
		line, want := c[0], c[1]
		out, err := once(t, e, "", strings.Fields(line)...)
		if !errors.Is(err, errUsage) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--help") || out != "" {
			t.Errorf("%s: %s%v, want %q", line, out, err, want)
		}
		if _, err := once(t, nil, "", strings.Fields(line)...); !errors.Is(err, errUsage) {
			t.Errorf("%s, without settings: %v", line, err)
		}
	}
	for line, want := range map[string]string{
		"keys create --name n --scopes admin --resources room-8":   `no resource "room-8"; booking resources list`,
		"keys revoke key_aaaaaaaaaaaaaaaa":                         "no API key of this id; booking keys list",
		"keys revoke slw_aaaqeayeaudaocajbifqydiob4ibceqtr6d2vic6": "its id, key_…, and not by the key; booking keys list",
	} {
		out, err := once(t, e, "", strings.Fields(line)...)
		if err == nil || errors.Is(err, errUsage) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "slw_") || out != "" {
			t.Errorf("%s: %s%v, want %q", line, out, err, want)
		}
	}
	var n int
	if err := db.Admin.QueryRow(t.Context(), `select count(*) from booking.api_keys`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d keys, %v", n, err)
	}
}

// The service asks for keys, takes a new one and refuses a revoked one at once, and notes when
// they were used.
func TestKeysOfTheRunningService(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	apply(t, db)
	e := env{"DATABASE_URL": db.URL("slotwise_booking")}
	s := start(t, e)
	s.await(s.admin+"/readyz", http.StatusOK)
	path := s.api + "/v1/bookings/01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"
	if status := s.status(path); status != http.StatusUnauthorized {
		t.Errorf("without a key: %d", status)
	}
	id, key := createdKey(t, e, "--name", "n", "--scopes", "bookings:read")
	s.key = key
	if status := s.status(path); status != http.StatusNotFound {
		t.Errorf("with a key: %d", status)
	}
	for end := time.Now().Add(20 * time.Second); ; {
		out, err := once(t, e, "", "keys", "list")
		if err == nil && !strings.Contains(out, "never") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("its use is not noted: %s%v", out, err)
		}
		s.status(path)
	}
	if _, err := once(t, e, "", "keys", "revoke", id); err != nil {
		t.Fatal(err)
	}
	if status := s.status(path); status != http.StatusUnauthorized {
		t.Errorf("revoked: %d", status)
	}
	s.end()
}

// Behind a trusted proxy each client has its own rate.
func TestRatePerClient(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	s := start(t, env{"DATABASE_URL": db.URL("slotwise_booking"), "RATE_PER_CLIENT": "1", "TRUSTED_PROXIES": "127.0.0.1"})
	s.await(s.admin+"/readyz", http.StatusOK)
	ask := func(client string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.api+"/openapi.yaml", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Forwarded-For", client)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	for end := time.Now().Add(20 * time.Second); ask("203.0.113.5") != http.StatusTooManyRequests; {
		if time.Now().After(end) {
			t.Fatal("it is never too often")
		}
	}
	if status := ask("203.0.113.6"); status != http.StatusOK {
		t.Errorf("another client: %d", status)
	}
	s.end()
}

// B148: no password in what a command prints, whether its URL is understood or not, and whether
// anybody answers there or not.
func TestB148CommandsPrintNoPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://u:q^G$%zz@127.0.0.1:5432/d", "postgres://u:q-Gzz@127.0.0.1:99999/d", "postgres://u:q-Gzz@127.0.0.1:1/d",
		"postgres://u:q-Gzz@127.0.0.1:1/d?connect_timeout=x",
	} {
		for _, line := range []string{"keys list", "keys create --name n --scopes admin", "keys revoke x", "resources list", "migrate"} {
			out, err := once(t, env{"DATABASE_URL": url}, "", strings.Fields(line)...)
			if err == nil || out != "" || strings.Contains(err.Error(), "zz") {
				t.Errorf("%s at %s: %s%v", line, url, out, err)
			}
		}
	}
}

var quoted = regexp.MustCompile(`"[^"]*"`)

// Every `booking keys` command of docs/operations.md can be copied.
func TestKeysInTheRunbook(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	apply(t, db)
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(quoted.ReplaceAllString(line, "quoted"), "#")
		args := strings.Fields(line)
		if len(args) < 3 || args[0] != "booking" || args[1] != "keys" {
			continue
		}
		seen++
		_, err := once(t, env{"DATABASE_URL": db.URL("slotwise_booking")}, "", args[1:]...)
		if err != nil && !errors.Is(err, store.ErrNoAPIKey) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if seen < 4 {
		t.Errorf("the runbook has %d commands about keys", seen)
	}
}
