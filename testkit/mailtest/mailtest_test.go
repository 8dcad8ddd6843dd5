package mailtest_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	netsmtp "net/smtp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/slotwise/slotwise/testkit/mailtest"
)

const body = "Subject: hello\r\nMessage-ID: <1@example.org>\r\n\r\n..dot\r\nbye\r\n"

func TestTwoClients(t *testing.T) {
	t.Parallel()
	server := mailtest.New(t, mailtest.Options{User: "u", Password: "p"})
	config := &tls.Config{RootCAs: server.Pool(), ServerName: "127.0.0.1"}

	err := netsmtp.SendMail(server.Addr(), nil, "a@example.org", []string{"b@example.org"}, []byte(body))
	if err == nil {
		t.Error("a client that does not know our authority, and does not authenticate, sent a mail")
	}

	std, err := netsmtp.Dial(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	must(t, std.StartTLS(config))
	must(t, std.Auth(netsmtp.PlainAuth("", "u", "p", "127.0.0.1")))
	must(t, std.Mail("std@example.org"))
	must(t, std.Rcpt("b@example.org"))
	must(t, std.Rcpt("c@example.org"))
	w, err := std.Data()
	must(t, err)
	_, err = io.WriteString(w, strings.ReplaceAll(body, "..", "."))
	must(t, err)
	must(t, w.Close())
	must(t, std.Quit())

	other, err := smtp.DialStartTLS(server.Addr(), config)
	must(t, err)
	must(t, other.Auth(sasl.NewLoginClient("u", "p")))
	must(t, other.SendMail("other@example.org", []string{"d@example.org"}, strings.NewReader(strings.ReplaceAll(body, "..", "."))))
	must(t, other.Quit())

	got := server.Wait(2, time.Second)
	if m := got[0]; m.From != "std@example.org" || strings.Join(m.To, " ") != "b@example.org c@example.org" || !m.TLS || m.User != "u" {
		t.Errorf("envelope %+v", m)
	}
	for _, m := range got {
		if string(m.Raw) != strings.ReplaceAll(body, "..", ".") || m.Subject != "hello" || m.MessageID != "1@example.org" {
			t.Errorf("message %q, subject %q, id %q", m.Raw, m.Subject, m.MessageID)
		}
		if time.Since(m.At) > time.Minute {
			t.Errorf("accepted at %s", m.At)
		}
	}
	want := mailtest.Counts{Conns: 3, EHLO: 6, STARTTLS: 3, AUTH: 2, MAIL: 2, RCPT: 3, DATA: 2, Dots: 2, QUIT: 2, Accepted: 2}
	server.WaitCounts("end of all connections", 5*time.Second, func(c mailtest.Counts) bool { return c.Open == 0 })
	have := server.Counts()
	have.EHLO, want.EHLO = 0, 0
	if have != want {
		t.Errorf("counts %+v, want %+v", have, want)
	}
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	server := mailtest.New(t, mailtest.Options{User: "u", Password: "p", TLS: true})
	c, err := smtp.DialTLS(server.Addr(), &tls.Config{RootCAs: server.Pool()})
	must(t, err)
	defer c.Close() //nolint:errcheck // a test's client
	var refused *smtp.SMTPError
	if err := c.Auth(sasl.NewPlainClient("", "u", "wrong")); !errors.As(err, &refused) || refused.Code != 535 {
		t.Errorf("AUTH with a wrong password: %v", err)
	}
	if err := c.Mail("a@example.org", nil); !errors.As(err, &refused) || refused.Code != 530 {
		t.Errorf("MAIL without AUTH: %v", err)
	}
	must(t, c.Auth(sasl.NewPlainClient("", "u", "p")))
	if !strings.HasPrefix(server.URL(), "smtps://u:p@127.0.0.1:") {
		t.Errorf("URL %s", server.URL())
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	server := mailtest.New(t, mailtest.Options{MaxConns: 1, Idle: 100 * time.Millisecond, MaxSize: 100})
	c, second := dial(t, server), dial(t, server)
	if got := c.say(""); !strings.HasPrefix(got, "220") {
		t.Fatalf("first: %s", got)
	}
	if got := second.say(""); !strings.HasPrefix(got, "421") {
		t.Errorf("one too many: %s", got)
	}
	c.say("EHLO c")
	if got := c.say("MAIL FROM:<a@example.org> SIZE=101"); !strings.HasPrefix(got, "552") {
		t.Errorf("too large: %s", got)
	}
	c.say("MAIL FROM:<a@example.org>")
	c.say("RCPT TO:<b@example.org>")
	c.say("DATA")
	if got := c.say(strings.Repeat("x\r\n", 50) + "."); !strings.HasPrefix(got, "552") {
		t.Errorf("too large: %s", got)
	}
	if got := c.say(""); !strings.HasPrefix(got, "421") {
		t.Errorf("idle: %s", got)
	}
	if got := c.say(""); got != "dead" {
		t.Errorf("after it: %s", got)
	}
	server.WaitCounts("free place", 5*time.Second, func(c mailtest.Counts) bool { return c.Open == 0 })
	if got := dial(t, server).say(""); !strings.HasPrefix(got, "220") {
		t.Errorf("next: %s", got)
	}
	if n := server.Counts().Refused; n != 1 {
		t.Errorf("%d refused", n)
	}
}

func TestStrict(t *testing.T) {
	t.Parallel()
	start := []string{"EHLO c"}
	open := slices.Concat(start, []string{"MAIL FROM:<a@example.org>", "RCPT TO:<b@example.org>", "DATA"})
	for name, tt := range map[string]struct {
		before    []string
		say, want string
	}{
		"MAIL before EHLO":  {nil, "MAIL FROM:<a@example.org>", "503"},
		"RCPT before MAIL":  {start, "RCPT TO:<b@example.org>", "503"},
		"DATA before RCPT":  {append(start, "MAIL FROM:<a@example.org>"), "DATA", "503"},
		"nested MAIL":       {append(start, "MAIL FROM:<a@example.org>"), "MAIL FROM:<a@example.org>", "503"},
		"no brackets":       {start, "MAIL FROM:a@example.org", "501"},
		"a name":            {start, "MAIL FROM:Ann <a@example.org>", "501"},
		"no recipient":      {append(start, "MAIL FROM:<a@example.org>"), "RCPT TO:<>", "501"},
		"AUTH in the clear": {start, "AUTH PLAIN AHUAcA==", "503"},
		"nonsense":          {start, "HELLO", "500"},
		"bare LF":           {open, "a\nb\r\n.", "554"},
		"bare CR":           {open, "a\rb\r\n.", "554"},
		"long line":         {open, strings.Repeat("x", 999) + "\r\n.", "554"},
		"longest line":      {open, strings.Repeat("x", 998) + "\r\n.", "250"},
		"endless line":      {open, strings.Repeat("x", 100_000) + "\r\n.", "554"},
		"dots":              {open, "...\r\n..\r\n.", "250"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := mailtest.New(t, mailtest.Options{})
			c := dial(t, server)
			c.say("")
			for _, line := range tt.before {
				c.say(line)
			}
			if got := c.say(tt.say); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%.40s: %s, want %s", tt.say, got, tt.want)
			}
			if got := c.say("RSET"); !strings.HasPrefix(got, "250") {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

func TestStopAndStart(t *testing.T) {
	t.Parallel()
	server := mailtest.New(t, mailtest.Options{})
	server.Script(mailtest.Fault{Phase: mailtest.NOOP, Delay: time.Hour})
	c := dial(t, server)
	c.say("")
	fmt.Fprint(c.conn, "NOOP\r\n")
	server.WaitCounts("NOOP", 5*time.Second, func(c mailtest.Counts) bool { return c.NOOP == 1 })
	addr := server.Addr()
	server.Stop()
	server.Stop()
	if got := c.say(""); got != "dead" {
		t.Errorf("after Stop: %s", got)
	}
	if _, err := net.Dial("tcp", addr); err == nil { //nolint:noctx // a loopback socket
		t.Error("it listens after Stop")
	}
	server.Start()
	if server.Addr() != addr {
		t.Errorf("it moved from %s to %s", addr, server.Addr())
	}
	talk(t, server, mailtest.Dot)
	server.Wait(1, time.Second)
}

func TestPipelining(t *testing.T) {
	t.Parallel()
	server := mailtest.New(t, mailtest.Options{})
	c := dial(t, server)
	c.say("")
	c.say("EHLO c")
	fmt.Fprint(c.conn, "MAIL FROM:<a@example.org>\r\nRCPT TO:<b@example.org>\r\nDATA\r\n")
	for _, want := range []string{"250", "250", "354"} {
		if got := c.hear(); !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := c.say("x\r\n."); !strings.HasPrefix(got, "250") {
		t.Error(got)
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	server := mailtest.New(t, mailtest.Options{})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			c, err := smtp.DialStartTLS(server.Addr(), &tls.Config{RootCAs: server.Pool()})
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close() //nolint:errcheck // a test's client
			for range 10 {
				if err := c.SendMail("a@example.org", []string{"b@example.org"}, strings.NewReader(body)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(server.Wait(200, time.Second)); n != 200 {
		t.Errorf("%d messages", n)
	}
}

func BenchmarkNoOp(b *testing.B) {
	server := mailtest.New(b, mailtest.Options{NoOp: true})
	c, err := smtp.DialStartTLS(server.Addr(), &tls.Config{RootCAs: server.Pool()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // a test's client
	text := strings.Repeat("0123456789012345678901234567890123456789012345678901234567\r\n", 26)
	for b.Loop() {
		if err := c.SendMail("a@example.org", []string{"b@example.org"}, strings.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
