package web_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/pkg/web"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

func TestLimiter(t *testing.T) {
	l, now := web.NewLimiter(2, 3), time.Unix(1_000_000, 0)
	ada, bob := addr("203.0.113.5"), addr("203.0.113.6")
	for i := range 3 {
		if wait, ok := l.Take(ada, now); !ok {
			t.Errorf("request %d waits %v", i, wait)
		}
	}
	if wait, ok := l.Take(ada, now); ok || wait != 500*time.Millisecond {
		t.Errorf("the fourth: %v %t, want half a second", wait, ok)
	}
	if _, ok := l.Take(bob, now); !ok {
		t.Error("somebody else is limited")
	}
	now = now.Add(500 * time.Millisecond)
	if _, ok := l.Take(ada, now); !ok {
		t.Error("who has waited is limited")
	}
	if _, ok := l.Take(ada, now); ok {
		t.Error("a refused request has filled the bucket")
	}
	if _, ok := l.Take(ada, now.Add(-time.Hour)); ok {
		t.Error("a clock that goes back fills the bucket")
	}
}

// A customer of a provider has a whole IPv6 network of 64 bits.
func TestIPv6ByNetwork(t *testing.T) {
	l, now := web.NewLimiter(1, 1), time.Unix(1_000_000, 0)
	for host, want := range map[string]bool{"2001:db8:1:2::1": true, "2001:db8:1:3::1": true} {
		if _, ok := l.Take(addr(host), now); ok != want {
			t.Errorf("%s: %t", host, ok)
		}
	}
	if _, ok := l.Take(addr("2001:db8:1:2:ffff::1"), now); ok {
		t.Error("another address of the network has a bucket of its own")
	}
}

func TestNoLimit(t *testing.T) {
	l, now := web.NewLimiter(0, 0), time.Unix(1_000_000, 0)
	for range 10_000 {
		if _, ok := l.Take(addr("203.0.113.5"), now); !ok {
			t.Fatal("limited")
		}
	}
}

// Any number of addresses takes bounded memory; who goes on asking is not forgotten for it.
func TestManyClients(t *testing.T) {
	l, now := web.NewLimiter(1, 1), time.Unix(1_000_000, 0)
	ada := addr("203.0.113.5")
	l.Take(ada, now)
	host := addr("10.0.0.1")
	for i := range 200_000 {
		l.Take(host, now)
		host = host.Next()
		if i%10_000 != 0 {
			continue
		}
		if _, ok := l.Take(ada, now); ok {
			t.Fatalf("forgotten after %d others", i)
		}
	}
	if n := l.Remembered(); n > 40_000 {
		t.Errorf("%d clients are remembered", n)
	}
}

func TestThrottle(t *testing.T) {
	registry := prometheus.NewRegistry()
	clients, err := web.Trust("127.0.0.1,::1")
	if err != nil {
		t.Fatal(err)
	}
	throttle := web.Throttle{Clients: clients, Limiter: web.NewLimiter(0.01, 2), Refused: web.NewRefused(registry)}
	ask := func(client string) *httptest.ResponseRecorder {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		request.RemoteAddr = "127.0.0.1:5000"
		request.Header.Set("X-Forwarded-For", client)
		answer := httptest.NewRecorder()
		if problem := throttle.Check(request); problem != nil {
			problem.Write(answer)
		}
		return answer
	}
	for range 2 {
		if r := ask("203.0.113.5"); r.Code != http.StatusOK {
			t.Errorf("status %d", r.Code)
		}
	}
	r := ask("203.0.113.5")
	var problem web.Problem
	if err := json.Unmarshal(r.Body.Bytes(), &problem); err != nil {
		t.Fatal(err)
	}
	if r.Code != http.StatusTooManyRequests || problem.Type != "/problems/too-many-requests" || r.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %+v", r.Code, problem)
	}
	if seconds, err := strconv.Atoi(r.Header().Get("Retry-After")); err != nil || seconds < 90 || seconds > 100 {
		t.Errorf("Retry-After: %q", r.Header().Get("Retry-After"))
	}
	if r := ask("203.0.113.6"); r.Code != http.StatusOK {
		t.Errorf("somebody else: %d", r.Code)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetMetric()[0].GetCounter().GetValue() != 1 {
		t.Errorf("counted %v, %v", families, err)
	}
}

func TestReadRate(t *testing.T) {
	env := config.New("test", func(string) string { return "0" })
	if _, ok := web.ReadRate(env).Take(addr("203.0.113.5"), time.Unix(1, 0)); !ok || env.Err() != nil {
		t.Errorf("0 limits: %v", env.Err())
	}
	env = config.New("test", func(string) string { return "" })
	l := web.ReadRate(env)
	for range 1000 {
		if _, ok := l.Take(addr("203.0.113.5"), time.Unix(1, 0)); !ok {
			t.Fatal("a busy integration hits the default")
		}
	}
	if _, ok := l.Take(addr("203.0.113.5"), time.Unix(1, 0)); ok {
		t.Error("the default limits nothing")
	}
}
