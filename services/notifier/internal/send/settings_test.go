package send_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/services/notifier/internal/send"
	"github.com/slotwise/slotwise/testkit/ca"
)

func read(values map[string]string) (send.Settings, error) {
	env := config.New("notifier", func(name string) string { return values[name] })
	s := send.Read(env)
	return s, env.Err()
}

func TestReadSettings(t *testing.T) {
	t.Parallel()
	s, err := read(map[string]string{"SMTP_URL": "smtp://u:p@mail.example"})
	if err != nil {
		t.Fatal(err)
	}
	if s.TLS != send.Mandatory || s.Connections != 4 || s.Rate != 20 || s.Drain != 30*time.Second || s.CAs != nil || s.Hello == "" {
		t.Errorf("defaults %+v", s)
	}
	for answer, temporary := range map[string]bool{
		"550 5.7.1 Try again later": true, "552 4.2.2 too many messages": true, "550 5.1.1 user unknown": false, "554 5.7.1 spam": false,
	} {
		if got := s.Temporary.MatchString(answer); got != temporary {
			t.Errorf("%s is temporary: %t", answer, got)
		}
	}
	if !s.Final.MatchString("450 User unknown in local table") || s.Final.MatchString("450 4.2.1 mailbox busy") {
		t.Error("a 450 is final when it should not be, or the other way round")
	}
}

func TestReadCAFile(t *testing.T) {
	t.Parallel()
	authority, err := ca.New()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, authority.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := read(map[string]string{"SMTP_URL": "smtps://mail.example", "SMTP_CA_FILE": file})
	if err != nil || s.CAs == nil {
		t.Errorf("%+v: %v", s, err)
	}
}

func TestReadMistakes(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "no.pem")
	if err := os.WriteFile(text, []byte("no"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"SMTP_URL": "http://mail.example", "SMTP_TLS": "perhaps", "SMTP_CONNECTIONS": "0", "SEND_RATE": "-1", "DRAIN": "long",
		"SMTP_CA_FILE": text, "SMTP_TEMPORARY": "(", "SMTP_FINAL": "[",
	} {
		values := map[string]string{"SMTP_URL": "smtp://u:hidden@mail.example", name: value}
		if _, err := read(values); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
	if _, err := read(nil); err == nil {
		t.Error("no mail server, and no mistake")
	}
}
