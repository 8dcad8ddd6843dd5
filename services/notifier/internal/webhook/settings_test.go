package webhook

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/testkit/ca"
)

func read(values map[string]string) (Settings, error) {
	env := config.New("notifier", func(name string) string { return values[name] })
	s := Read(env, time.Minute)
	return s, env.Err()
}

func TestReadSettings(t *testing.T) {
	t.Parallel()
	authority, err := ca.New()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, authority.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := read(nil)
	if err != nil || s.Connections != 64 || s.Rules.HTTP || s.Rules.Allow != nil || s.Proxy != nil || s.CAs != nil || s.Drain != time.Minute {
		t.Errorf("defaults %+v, %v", s, err)
	}
	s, err = read(map[string]string{
		"WEBHOOK_ALLOW": "10.1.0.0/16, fd00:1::/32", "WEBHOOK_ALLOW_HTTP": "yes", "WEBHOOK_PROXY": "http://u:p@proxy.example:3128",
		"WEBHOOK_CA_FILE": file, "WEBHOOK_CONNECTIONS": "8",
	})
	if err != nil || !slices.Equal(s.Rules.Allow, prefixes("10.1.0.0/16", "fd00:1::/32")) || !s.Rules.HTTP || s.Proxy.Host != "proxy.example:3128" || s.CAs == nil || s.Connections != 8 {
		t.Errorf("%+v, %v", s, err)
	}
	for name, values := range map[string][]string{
		"WEBHOOK_ALLOW":       {"10.1.0.1/16", "10.1.0.0", "all", "::ffff:10.0.0.0/104", "10.1.0.0/33"},
		"WEBHOOK_ALLOW_HTTP":  {"true"},
		"WEBHOOK_PROXY":       {"proxy:3128", "http://u:secret@proxy", "ftp://proxy:21", "http://u:secret@\x7f:1"},
		"WEBHOOK_CA_FILE":     {"nowhere", "/dev/null"},
		"WEBHOOK_CONNECTIONS": {"1", "1001", "x"},
	} {
		for _, value := range values {
			_, err := read(map[string]string{name: value})
			if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s=%s: %v", name, value, err)
			}
		}
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	if err := DefaultTimes().Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Times){
		"no steps":      func(t *Times) { t.Steps = nil },
		"a step of 0":   func(t *Times) { t.Steps = []time.Duration{time.Second, 0} },
		"spread":        func(t *Times) { t.Spread = 2 },
		"poll":          func(t *Times) { t.Poll = 0 },
		"dial":          func(t *Times) { t.Dial = t.Timeout + 1 },
		"lease":         func(t *Times) { t.Lease = 2*t.Timeout - 1 },
		"give up":       func(t *Times) { t.GiveUp = 0 },
		"negative rest": func(t *Times) { t.RetryCap = -1 },
	} {
		times := DefaultTimes()
		change(&times)
		if err := times.Check(); !errors.Is(err, ErrTimes) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
