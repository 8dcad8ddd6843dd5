package config_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/config"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func env(pairs ...string) func(string) string {
	values := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return values[name] }
}

func TestDefaults(t *testing.T) {
	r := config.New("test", env())
	if got := r.String("A", "x", ""); got != "x" {
		t.Errorf("String = %q", got)
	}
	if got := r.Duration("B", time.Minute, 0, time.Hour, ""); got != time.Minute {
		t.Errorf("Duration = %v", got)
	}
	if got := r.Int("C", 4, 1, 9, ""); got != 4 {
		t.Errorf("Int = %d", got)
	}
	if got := r.Choice("D", "", "one", "two"); got != "one" {
		t.Errorf("Choice = %q", got)
	}
	if err := r.Err(); err != nil {
		t.Errorf("Err = %v", err)
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	r := config.New("test", env("B", "soon", "C", "10", "D", "three", "F", "http://h/"))
	r.Required("A", "")
	r.Duration("B", time.Minute, 0, time.Hour, "")
	r.Int("C", 4, 1, 9, "")
	r.Choice("D", "", "one", "two")
	r.URL("E", "", "", "nats")
	r.URL("F", "", "", "nats", "tls")
	err := r.Err()
	if err == nil {
		t.Fatal("Err = nil")
	}
	for _, name := range []string{"A is required", "B must be a duration", "C must be a whole number", "D must be one of", "E is required", "F must begin with nats:// or tls://"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("Err lacks %q: %v", name, err)
		}
	}
}

// A password with characters that break a URL must not come back in the complaint.
func TestB148SecretsStayHidden(t *testing.T) {
	const secret = "q^G$%zz"
	r := config.New("test", env("U", "postgres://user:"+secret+"@host:port/db", "V", "smtp://user:geheim@host:25", "W", "geheim2"))
	r.URL("U", "", "database", "postgres")
	r.URL("V", "", "mail", "smtp")
	r.Secret("W", "a key")

	core, logged := observer.New(zapcore.InfoLevel)
	zap.New(core).Info("settings", r.Fields()...)
	var help bytes.Buffer
	if !r.Answer([]string{"--help"}, &help) {
		t.Fatal("--help was not answered")
	}
	var all strings.Builder
	all.WriteString(r.Err().Error() + help.String())
	for _, f := range logged.All()[0].Context {
		all.WriteString(f.String + "\n")
	}
	for _, s := range []string{secret, "geheim"} {
		if strings.Contains(all.String(), s) {
			t.Errorf("%q is shown:\n%s", s, all.String())
		}
	}
}

func TestAnswer(t *testing.T) {
	var out bytes.Buffer
	r := config.New("relay", env())
	r.Int("RELAY_BATCH", 500, 1, 1000, "rows a claim")
	r.Commands("relay: publish")
	if r.Answer(nil, &out) || out.Len() > 0 {
		t.Fatal("answered nothing asked")
	}
	r.Answer([]string{"--help"}, &out)
	if !strings.HasPrefix(out.String(), "relay: publish\n") || !strings.Contains(out.String(), "RELAY_BATCH  500  rows a claim") {
		t.Errorf("help = %s", out.String())
	}
	out.Reset()
	r.Answer([]string{"--version"}, &out)
	if !strings.HasPrefix(out.String(), "relay ") {
		t.Errorf("version = %s", out.String())
	}
}
