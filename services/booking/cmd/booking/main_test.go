package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/proxy"
	"github.com/slotwise/slotwise/testkit/seed"
)

// env are a service's settings.
type env map[string]string

func (e env) get(name string) string { return e[name] }

// once runs a command and returns what it printed.
func once(t *testing.T, e env, in string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), args, e.get, strings.NewReader(in), &out)
	return out.String(), err
}

// service is a running `booking`.
type service struct {
	t          *testing.T
	api, admin string
	key        string // that it is asked with; empty: none
	stop       context.CancelFunc
	ended      chan error
}

// start runs the service on free ports; nobody listens where its NATS should be, unless e says.
// The tests ask it with the API key that e has as "key".
func start(t *testing.T, e env) *service {
	t.Helper()
	settings := env{"HTTP_ADDR": freeAddr(t), "ADMIN_ADDR": freeAddr(t), "NATS_URL": "nats://127.0.0.1:1", "DRAIN_LAG": "0s", "DRAIN": "5s"}
	maps.Copy(settings, e)
	ctx, stop := context.WithCancel(t.Context())
	s := &service{t, "http://" + settings["HTTP_ADDR"], "http://" + settings["ADMIN_ADDR"], e["key"], stop, make(chan error, 1)}
	go func() { s.ended <- run(ctx, nil, settings.get, nil, io.Discard) }()
	t.Cleanup(stop)
	return s
}

func (s *service) end() {
	s.t.Helper()
	s.stop()
	select {
	case err := <-s.ended:
		if err != nil {
			s.t.Errorf("run = %v", err)
		}
	case <-time.After(20 * time.Second):
		s.t.Error("it did not end within 20 s")
	}
}

// status asks once; 0 when nobody answers.
func (s *service) status(url string) int {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.key != "" {
		request.Header.Set("Authorization", "Bearer "+s.key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

func (s *service) await(url string, status int) {
	s.t.Helper()
	last := -1
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); {
		if last = s.status(url); last == status {
			return
		}
		select {
		case err := <-s.ended:
			s.t.Fatalf("it has ended: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	s.t.Fatalf("%s answers %d, want %d", url, last, status)
}

func (s *service) book(start string) (status int, took time.Duration) {
	s.t.Helper()
	body := fmt.Sprintf(`{"resource":"room-7","start":%q,"name":"Ada","address":"ada@x.example"}`, start)
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.api+"/v1/bookings", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+s.key)
	begun := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode, time.Since(begun)
}

func freeAddr(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func apply(t *testing.T, db *dbtest.DB) {
	t.Helper()
	if out, err := once(t, env{"DATABASE_URL": db.URL("slotwise_booking")}, "", "resources", "apply", "../../../../examples/resources.yaml"); err != nil {
		t.Fatal(out, err)
	}
}

func TestHelpAndMistakes(t *testing.T) {
	t.Parallel()
	out, err := once(t, env{}, "", "--help")
	if err != nil {
		t.Error(err)
	}
	for _, name := range []string{"booking resources apply FILE", "HTTP_ADDR", "ADMIN_ADDR", "LOG_LEVEL", "DATABASE_URL", "DATABASE_EXEC_MODE", "DATABASE_POOL", "NATS_URL", "NATS_NKEY_FILE", "REMINDER_LEAD", "MAILS_PER_HOUR", "LINK_KEYS", "TRUSTED_PROXIES", "RATE_PER_CLIENT", "booking keys create FLAGS", "--scopes LIST", "DRAIN_LAG", "DRAIN"} {
		if !strings.Contains(out, name) {
			t.Errorf("--help lacks %s", name)
		}
	}
	_, err = once(t, env{"REMINDER_LEAD": "soon", "DRAIN": "-1s"}, "")
	for _, name := range []string{"DATABASE_URL", "REMINDER_LEAD", "DRAIN"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("mistakes lack %s: %v", name, err)
		}
	}
	if _, err := once(t, env{"DATABASE_URL": "postgres://h/d"}, "", "serve"); err == nil || !strings.Contains(err.Error(), "resources apply FILE") {
		t.Errorf("unknown command: %v", err)
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	if _, err := once(t, env{"DATABASE_URL": db.URL("slotwise_booking_owner")}, "", "migrate"); err != nil {
		t.Errorf("up to date already: %v", err)
	}
	if _, err := once(t, env{"DATABASE_URL": db.URL("slotwise_scheduler")}, "", "migrate"); err == nil {
		t.Error("a service's role may migrate")
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	e := env{"DATABASE_URL": db.URL("slotwise_booking")}
	example := filepath.Join("..", "..", "..", "..", "examples", "resources.yaml")
	out, err := once(t, e, "", "resources", "apply", example)
	if err != nil || !strings.Contains(out, "room-7: created") || !strings.Contains(out, "3 resources, 3 changed") {
		t.Errorf("first: %s%v", out, err)
	}
	if out, err = once(t, e, "", "resources", "apply", example); err != nil || out != "3 resources, 0 changed\n" {
		t.Errorf("again: %s%v", out, err)
	}
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "capacity: 12", "capacity: 10\n    retired: true", 1)
	if out, err = once(t, e, changed, "resources", "apply", "-"); err != nil || out != "course-pottery: capacity 12 → 10, retired - → yes\n3 resources, 1 changed\n" {
		t.Errorf("changed: %s%v", out, err)
	}
	if out, err = once(t, e, "resources: [{id: X}]", "resources", "apply", "-"); err == nil || out != "" {
		t.Errorf("mistakes: %s%v", out, err)
	}
	if out, err = once(t, e, "", "resources", "list"); err != nil || strings.Count(out, "\n") != 4 || !strings.Contains(out, "Asia/Kathmandu") {
		t.Errorf("list: %s%v", out, err)
	}
	var retired bool
	if err := db.Admin.QueryRow(t.Context(), `select retired_at is not null from booking.resources where id = 'course-pottery'`).Scan(&retired); err != nil || !retired {
		t.Errorf("retired: %t, %v", retired, err)
	}
}

// B84, B144: with NATS away the service is ready and a booking is answered at once.
func TestB84NATSAway(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	apply(t, db)
	s := start(t, env{"DATABASE_URL": db.URL("slotwise_booking"), "key": seed.Key(t, db.Admin, nil)})
	s.await(s.admin+"/readyz", http.StatusOK)
	best := time.Hour
	for day := range 5 {
		status, took := s.book(fmt.Sprintf("2040-01-%02dT10:00:00Z", day+1))
		if status != http.StatusCreated {
			t.Errorf("answered %d", status)
		}
		best = min(best, took)
	}
	if best > 200*time.Millisecond {
		t.Errorf("the fastest of five bookings took %v", best)
	}
	if status := s.status(s.admin + "/metrics"); status != http.StatusOK {
		t.Errorf("/metrics: %d", status)
	}
	s.end()
}

// It starts before its database, says so, and goes on by itself; an outage later makes it
// unready and never kills it.
func TestB144WaitsForPostgreSQL(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	apply(t, db)
	p := proxy.New(t, db.URL("slotwise_booking"))
	p.Refuse()
	s := start(t, env{"DATABASE_URL": p.URL(db.URL("slotwise_booking")), "key": seed.Key(t, db.Admin, nil)})
	s.await(s.admin+"/livez", http.StatusOK)
	s.await(s.admin+"/readyz", http.StatusServiceUnavailable)
	if status := s.status(s.api + "/openapi.yaml"); status != 0 {
		t.Errorf("the API answers %d", status)
	}
	p.Accept()
	s.await(s.admin+"/readyz", http.StatusOK)
	s.await(s.api+"/openapi.yaml", http.StatusOK)
	p.Refuse()
	p.Cut()
	s.await(s.admin+"/readyz", http.StatusServiceUnavailable)
	if live, booked := s.status(s.admin+"/livez"), s.status(s.api+"/v1/bookings/01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"); live != http.StatusOK || booked != http.StatusServiceUnavailable {
		t.Errorf("away: live %d, API %d", live, booked)
	}
	p.Accept()
	s.await(s.api+"/v1/bookings/01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f", http.StatusNotFound)
	s.end()
}

// Told to stop while it still waits, it stops.
func TestStopsWhileItWaits(t *testing.T) {
	t.Parallel()
	s := start(t, env{"DATABASE_URL": "postgres://x:y@127.0.0.1:1/d?sslmode=disable"})
	s.await(s.admin+"/livez", http.StatusOK)
	s.end()
}

func TestAPortThatIsTaken(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	db := dbtest.New(t)
	for _, setting := range []string{"HTTP_ADDR", "ADMIN_ADDR"} {
		s := start(t, env{"DATABASE_URL": db.URL("slotwise_booking"), setting: l.Addr().String()})
		select {
		case err := <-s.ended:
			if err == nil || !strings.Contains(err.Error(), setting) {
				t.Errorf("%s is taken: %v", setting, err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s is taken and it goes on", setting)
		}
	}
}

// After each commit the doorbell rings, by the service's own NATS user.
func TestDoorbell(t *testing.T) {
	t.Parallel()
	db, bus := dbtest.New(t), bustest.New(t)
	apply(t, db)
	rings, err := bus.Connect("relay").SubscribeSync(topology.Doorbell)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, env{"DATABASE_URL": db.URL("slotwise_booking"), "NATS_URL": bus.URL(), "NATS_NKEY_FILE": bus.SeedFile("booking"), "key": seed.Key(t, db.Admin, nil)})
	s.await(s.api+"/openapi.yaml", http.StatusOK)
	for day := 1; ; day++ { // the connection may still be on its way
		if status, _ := s.book(fmt.Sprintf("2040-01-%02dT10:00:00Z", day)); status != http.StatusCreated {
			t.Fatalf("answered %d", status)
		}
		if _, err := rings.NextMsg(time.Second); err == nil {
			break
		}
		if day == 20 {
			t.Fatal("it never rang")
		}
	}
	s.end()
}
