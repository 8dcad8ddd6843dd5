package admin_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/admin"
)

func get(t *testing.T, s *admin.Server, path string) (status int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
	all, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(all)
}

// An outage must not restart anybody: what is away makes a service unready, not dead.
func TestB144OutageIsUnreadyNotDead(t *testing.T) {
	s := admin.New()
	s.Ready("postgres", func(context.Context) error { return errors.New("connection refused") })
	if status, body := get(t, s, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "postgres: connection refused") {
		t.Errorf("readyz = %d %q", status, body)
	}
	if status, _ := get(t, s, "/livez"); status != http.StatusOK {
		t.Errorf("livez = %d", status)
	}
}

func TestB145StuckIsDead(t *testing.T) {
	s := admin.New()
	s.Live("passes", func(context.Context) error { return errors.New("no pass for 2m") })
	if status, body := get(t, s, "/livez"); status != http.StatusServiceUnavailable || !strings.Contains(body, "passes") {
		t.Errorf("livez = %d %q", status, body)
	}
}

// A check that ignores its deadline must not hang the probe.
func TestB31FrozenCheckAnswersInTime(t *testing.T) {
	t.Parallel()
	s := admin.New()
	release := make(chan struct{})
	defer close(release)
	s.Ready("frozen", func(context.Context) error { <-release; return nil })
	began := time.Now()
	if status, _ := get(t, s, "/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("readyz = %d", status)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("probe took %v", took)
	}
}

func TestDrain(t *testing.T) {
	s := admin.New()
	if status, _ := get(t, s, "/readyz"); status != http.StatusOK {
		t.Fatalf("readyz = %d", status)
	}
	s.Drain()
	if status, _ := get(t, s, "/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("readyz while stopping = %d", status)
	}
}

func TestMetrics(t *testing.T) {
	if status, body := get(t, admin.New(), "/metrics"); status != http.StatusOK || !strings.Contains(body, "go_goroutines") {
		t.Errorf("metrics = %d", status)
	}
}
