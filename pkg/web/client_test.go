package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/pkg/web"
)

func TestClientAddress(t *testing.T) {
	const proxies = "10.0.0.0/8, 192.0.2.7 ,fd00::/8"
	for _, c := range []struct {
		what, trusted, peer string
		forwarded           []string
		want                string
	}{
		{"nobody is trusted", "", "10.0.0.1:5000", []string{"203.0.113.5"}, "10.0.0.1"},
		{"a stranger invents", proxies, "203.0.113.9:5000", []string{"203.0.113.5"}, "203.0.113.9"},
		{"one proxy", proxies, "10.0.0.1:5000", []string{"203.0.113.5"}, "203.0.113.5"},
		{"what the client invented stands left", proxies, "10.0.0.1:5000", []string{"198.51.100.1, 203.0.113.5"}, "203.0.113.5"},
		{"two proxies", proxies, "10.0.0.1:5000", []string{"198.51.100.1, 203.0.113.5,192.0.2.7"}, "203.0.113.5"},
		{"several headers", proxies, "10.0.0.1:5000", []string{"198.51.100.1", "203.0.113.5, 10.2.3.4"}, "203.0.113.5"},
		{"only proxies", proxies, "10.0.0.1:5000", []string{"10.9.9.9, 10.2.3.4"}, "10.9.9.9"},
		{"no header", proxies, "10.0.0.1:5000", nil, "10.0.0.1"},
		{"an empty header", proxies, "10.0.0.1:5000", []string{""}, "10.0.0.1"},
		{"unknown", proxies, "10.0.0.1:5000", []string{"203.0.113.5, unknown"}, "10.0.0.1"},
		{"unreadable behind a proxy", proxies, "10.0.0.1:5000", []string{"203.0.113.5, _hidden, 10.2.3.4"}, "10.2.3.4"},
		{"with a port", proxies, "10.0.0.1:5000", []string{"203.0.113.5:1234"}, "203.0.113.5"},
		{"IPv6", proxies, "[fd00::1]:5000", []string{"2001:db8::5"}, "2001:db8::5"},
		{"IPv6 in brackets", proxies, "[fd00::1]:5000", []string{"[2001:db8::5]"}, "2001:db8::5"},
		{"IPv6 with a port", proxies, "[fd00::1]:5000", []string{"[2001:db8::5]:80"}, "2001:db8::5"},
		{"mapped IPv4", proxies, "[::ffff:10.0.0.1]:5000", []string{"::ffff:203.0.113.5"}, "203.0.113.5"},
		{"a mapped network is trusted", "::ffff:10.0.0.0/104", "10.0.0.1:5000", []string{"203.0.113.5"}, "203.0.113.5"},
		{"and no more than that", "::ffff:10.0.0.0/104", "11.0.0.1:5000", []string{"203.0.113.5"}, "11.0.0.1"},
		{"a zone", proxies, "[fe80::1%eth0]:5000", nil, "fe80::1"},
		{"a socket without an address", proxies, "@", []string{"203.0.113.5"}, "invalid IP"},
	} {
		clients, err := web.Trust(c.trusted)
		if err != nil {
			t.Fatal(err)
		}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		request.RemoteAddr = c.peer
		request.Header["X-Forwarded-For"] = c.forwarded
		if got := clients.Addr(request); got.String() != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

func TestReadClients(t *testing.T) {
	for value, wrong := range map[string]bool{"": false, "10.0.0.0/8,::1": false, "10.0.0.0/33": true, "proxy.example": true, "10.0.0.1:80": true} {
		env := config.New("test", func(string) string { return value })
		web.ReadClients(env)
		if err := env.Err(); wrong != (err != nil) || wrong && (!strings.Contains(err.Error(), "TRUSTED_PROXIES") || strings.Contains(err.Error(), "proxy.example")) {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// Whatever somebody sends, the address is one that was sent, or the connection's.
func FuzzForwardedFor(f *testing.F) {
	f.Add("203.0.113.5, 10.0.0.2", "10.0.0.1:1")
	f.Add("[2001:db8::5]:80,,", "[fd00::1]:1")
	f.Fuzz(func(t *testing.T, forwarded, peer string) {
		clients, err := web.Trust("10.0.0.0/8,fd00::/8")
		if err != nil {
			t.Fatal(err)
		}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		request.RemoteAddr = peer
		request.Header.Set("X-Forwarded-For", forwarded)
		if addr := clients.Addr(request); addr.Is4In6() || addr.Zone() != "" {
			t.Errorf("two forms of one address: %s", addr)
		}
	})
}
