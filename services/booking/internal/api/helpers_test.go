package api_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/apikey"
	"github.com/slotwise/slotwise/pkg/web"
	"github.com/slotwise/slotwise/services/booking/internal/api"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
	"github.com/slotwise/slotwise/services/booking/internal/store"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/seed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

var update = flag.Bool("update", false, "write the golden files")

// door is the API on a socket, over a database of the test's own.
type door struct {
	t      *testing.T
	db     *dbtest.DB
	url    string
	key    string // API key of every request below /v1; by default an admin's
	logs   *observer.ObservedLogs
	counts *prometheus.Registry
}

// with is the same door for who has another key.
func (d *door) with(key string) *door {
	other := *d
	other.key = key
	return &other
}

type silent struct{}

func (silent) Ring() {}

func open(t *testing.T) *door {
	t.Helper()
	db := dbtest.New(t)
	return openOn(t, db, db.Pool("slotwise_booking"))
}

func openOn(t *testing.T, db *dbtest.DB, pool *pgxpool.Pool, change ...func(*app.Bookings)) *door {
	t.Helper()
	resources, err := store.New(db.Pool("slotwise_booking"))
	if err != nil {
		t.Fatal(err)
	}
	none := time.Duration(0)
	_, err = resources.PutResources(t.Context(), []booking.Resource{
		{ID: "room-7", Name: "Room 7", Zone: "Europe/Berlin", Capacity: 1, SlotMinutes: 60, HostAddress: "host@x.example"},
		{ID: "half-hours", Name: "Half hours", Zone: "Europe/Berlin", Capacity: 1, SlotMinutes: 30, ReminderLead: &none},
		{ID: "hall", Name: "Hall", Zone: "Asia/Kathmandu", Capacity: 5, SlotMinutes: 60},
		{ID: "old", Name: "Old", Zone: "UTC", Capacity: 1, SlotMinutes: 60, Retired: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zapcore.DebugLevel)
	bookings := app.Bookings{Store: s, Bell: silent{}, Lead: 24 * time.Hour}
	for _, f := range change {
		f(&bookings)
	}
	counts := prometheus.NewRegistry()
	doors := shut(t, pool, counts, zap.New(core))
	server := httptest.NewServer(api.New(bookings, doors, zap.New(core), counts))
	t.Cleanup(server.Close)
	return &door{t, db, server.URL, seed.Key(t, db.Admin, nil), logs, counts}
}

// shut makes the doors as the service does.
func shut(tb testing.TB, pool *pgxpool.Pool, counts *prometheus.Registry, log *zap.Logger) api.Doors {
	tb.Helper()
	keys, err := apikey.In(pool, "booking.api_keys")
	if err != nil {
		tb.Fatal(err)
	}
	clients, err := web.Trust("127.0.0.1")
	if err != nil {
		tb.Fatal(err)
	}
	refused := web.NewRefused(counts, append(slices.Clone(apikey.Reasons), api.WrongToken)...)
	return api.Doors{
		Throttle: web.Throttle{Clients: clients, Refused: refused},
		Keys:     apikey.NewGuard(keys, clients, refused, log),
		Links:    api.Links{Keys: testKeys(tb), Clients: clients, Refused: refused},
	}
}

// reply is an answer, read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

type bookingJSON struct {
	ID         string           `json:"id"`
	Version    int64            `json:"version"`
	Status     string           `json:"status"`
	Start      time.Time        `json:"start"`
	End        time.Time        `json:"end"`
	LocalStart string           `json:"local_start"`
	Seats      int              `json:"seats"`
	Name       string           `json:"name"`
	Note       string           `json:"note"`
	Address    string           `json:"address"`
	RemindAt   *time.Time       `json:"remind_at"`
	Messages   []map[string]any `json:"messages"`
}

func (r reply) booking(t *testing.T) bookingJSON {
	t.Helper()
	var b bookingJSON
	if err := json.Unmarshal(r.body, &b); err != nil || r.status >= 300 {
		t.Fatalf("%d %s (%v)", r.status, r.body, err)
	}
	return b
}

func (r reply) slug() string {
	var p struct{ Type string }
	json.Unmarshal(r.body, &p) //nolint:errcheck // then there is none
	return strings.TrimPrefix(p.Type, "/problems/")
}

// do sends body, a string as it is and anything else as JSON; headers are pairs.
func (d *door) do(method, path string, body any, headers ...string) reply {
	d.t.Helper()
	r, err := d.try(method, path, body, headers...)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

func (d *door) try(method, path string, body any, headers ...string) (reply, error) {
	text, ok := body.(string)
	if !ok {
		encoded, err := json.Marshal(body)
		if err != nil {
			return reply{}, fmt.Errorf("encode: %w", err)
		}
		text = string(encoded)
	}
	request, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(text))
	if err != nil {
		return reply{}, fmt.Errorf("ask: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(path, "/v1/") && d.key != "" {
		request.Header.Set("Authorization", "Bearer "+d.key)
	}
	for i := 0; i < len(headers); i += 2 {
		switch name, value := headers[i], headers[i+1]; value {
		case "":
			request.Header.Del(name)
		default:
			request.Header.Add(name, value)
		}
	}
	if values := request.Header.Values("Content-Type"); len(values) > 1 {
		request.Header["Content-Type"] = values[1:]
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return reply{}, fmt.Errorf("ask: %w", err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		return reply{}, fmt.Errorf("read answer: %w", err)
	}
	return reply{response.StatusCode, response.Header, all}, nil
}

// fields is a good request with some members replaced; nil takes one away.
func fields(change map[string]any) map[string]any {
	all := map[string]any{
		"resource": "room-7", "start": "2040-03-01T10:00:00+01:00", "seats": 1,
		"name": "Ada Lovelace", "address": "ada@x.example", "locale": "en", "note": "a window seat",
	}
	maps.Copy(all, change)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

func (d *door) book(change map[string]any, headers ...string) reply {
	d.t.Helper()
	return d.do(http.MethodPost, "/v1/bookings", fields(change), headers...)
}

// etag names a version.
func etag(version int64) string { return fmt.Sprintf("%q", fmt.Sprint(version)) }

func (d *door) count(sql string) int {
	d.t.Helper()
	var n int
	if err := d.db.Admin.QueryRow(d.t.Context(), sql).Scan(&n); err != nil {
		d.t.Fatal(err)
	}
	return n
}

func (d *door) exec(sql string, args ...any) {
	d.t.Helper()
	if _, err := d.db.Admin.Exec(d.t.Context(), sql, args...); err != nil {
		d.t.Fatal(err)
	}
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// golden compares the answer, without its ids, with testdata/<name>.txt.
func (r reply) golden(t *testing.T, name string) {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "%d\n", r.status)
	for _, header := range slices.Sorted(maps.Keys(r.header)) {
		if header != "Date" && header != "Content-Length" {
			fmt.Fprintf(&text, "%s: %s\n", header, strings.Join(r.header[header], ", "))
		}
	}
	fmt.Fprintf(&text, "\n%s", r.body)
	got := uuids.ReplaceAllString(text.String(), "00000000-0000-7000-8000-000000000000")
	file := filepath.Join("testdata", strings.NewReplacer(" ", "-", ",", "").Replace(name)+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
	}
}
