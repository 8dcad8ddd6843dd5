package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/pkg/config"
)

// PUBLIC_URL and LINK_KEYS come together or not at all, and B148: no key is shown.
func TestB148Links(t *testing.T) {
	t.Parallel()
	secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))
	tests := map[string]struct {
		url, keys string
		base      string // empty: there are no links
		mistake   string
	}{
		"neither":              {"", "", "", ""},
		"both":                 {"https://book.example.org", "1:" + secret, "https://book.example.org", ""},
		"a path, and slashes":  {"https://example.org/rooms//", "1:" + secret, "https://example.org/rooms", ""},
		"a port, without TLS":  {"http://127.0.0.1:8080", "2:" + secret + ",1:" + secret, "http://127.0.0.1:8080", ""},
		"no keys":              {"https://book.example.org", "", "https://book.example.org", "PUBLIC_URL and LINK_KEYS must be set together"},
		"no URL":               {"", "1:" + secret, "", "PUBLIC_URL and LINK_KEYS must be set together"},
		"a key that is broken": {"https://book.example.org", "1:" + secret[:20], "https://book.example.org", "LINK_KEYS has a key 1 of 15 bytes"},
		"no scheme":            {"book.example.org", "1:" + secret, "", "PUBLIC_URL must begin"},
		"another scheme":       {"javascript://x", "1:" + secret, "", "PUBLIC_URL must begin"},
		"a password":           {"https://u:p@example.org", "1:" + secret, "", "PUBLIC_URL must begin"},
		"a query":              {"https://example.org?a=b", "1:" + secret, "", "PUBLIC_URL must begin"},
		"an empty query":       {"https://example.org?", "1:" + secret, "", "PUBLIC_URL must begin"},
		"a fragment":           {"https://example.org#a", "1:" + secret, "", "PUBLIC_URL must begin"},
		"no host":              {"https:///b", "1:" + secret, "", "PUBLIC_URL must begin"},
		"no URL at all":        {"https://[", "1:" + secret, "", "PUBLIC_URL must begin"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := config.New("notifier", func(name string) string {
				return map[string]string{"PUBLIC_URL": tt.url, "LINK_KEYS": tt.keys}[name]
			})
			l := readLinks(env)
			err := fmt.Sprint(env.Err())
			if l.Base != tt.base || tt.mistake == "" && env.Err() != nil || !strings.Contains(err, tt.mistake) {
				t.Errorf("links to %q, mistakes %s", l.Base, err)
			}
			if shown := fmt.Sprint(err, env.Fields()); strings.Contains(shown, secret[:20]) {
				t.Errorf("shown: %s", shown)
			}
		})
	}
}
