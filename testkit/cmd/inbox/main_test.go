package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	env := map[string]string{
		"INBOX_SMTP_ADDR": "127.0.0.1:0", "INBOX_HTTP_ADDR": "127.0.0.1:0",
		"INBOX_DIR": filepath.Join(dir, "inbox"), "INBOX_CA_FILE": filepath.Join(dir, "ca.pem"),
	}
	var authorities []string
	for n := 1; n <= 2; n++ { // the second one finds the mail and the authority of the first
		ctx, stop := context.WithCancel(t.Context())
		out, in := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- run(ctx, nil, func(name string) string { return env[name] }, in) }()
		lines := bufio.NewReader(out)
		var mails, page string
		if _, err := fmt.Fscanf(lines, "mails on %s page on %s\n", &mails, &page); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, lines) }() // its log, until the pipe is closed
		authority, err := os.ReadFile(env["INBOX_CA_FILE"])
		if err != nil {
			t.Fatal(err)
		}
		authorities = append(authorities, string(authority))
		send(t, strings.TrimSuffix(mails, ","), authority)
		if body := fetch(t, page+"/api/v1/messages"); !strings.Contains(body, fmt.Sprintf(`"total":%d`, n)) {
			t.Errorf("run %d: %s", n, body)
		}
		start := time.Now()
		stop()
		if err := <-done; err != nil {
			t.Errorf("run %d: %v", n, err)
		}
		if took := time.Since(start); took > grace {
			t.Errorf("stopping took %s", took)
		}
		_ = in.Close() // ends the copy
	}
	if authorities[0] != authorities[1] {
		t.Error("the authority has changed: running clients would not trust it")
	}
}

// send sends a mail and keeps the connection, as the notifier does.
func send(t *testing.T, addr string, authority []byte) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	c, err := smtp.DialStartTLS(addr, &tls.Config{RootCAs: pool, ServerName: host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SendMail("a@example.org", []string{"b@example.org"}, strings.NewReader("Subject: x\r\n\r\nhello\r\n")); err != nil {
		t.Fatal(err)
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestMistakes(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a loopback socket
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for name, tt := range map[string]struct{ name, value, want string }{
		"a busy port":      {"INBOX_SMTP_ADDR", busy.Addr().String(), "INBOX_SMTP_ADDR moves it"},
		"key without cert": {"INBOX_TLS_KEY", "x", "INBOX_TLS_CERT"},
		"no number":        {"INBOX_KEEP", "many", "INBOX_KEEP"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			err := run(t.Context(), nil, func(name string) string {
				return map[string]string{"INBOX_DIR": dir, tt.name: tt.value}[name]
			}, io.Discard)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("run = %v, want %s in it", err, tt.want)
			}
		})
	}
}
