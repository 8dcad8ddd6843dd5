package send_test

import (
	"crypto/x509"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/services/notifier/internal/send"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/mailtest"
)

// A connection that can't be had touches no row.
func TestConnectionThatCantBeHad(t *testing.T) {
	t.Parallel()
	auth := mailtest.Options{User: "u", Password: "p"}
	tests := map[string]struct {
		options mailtest.Options
		change  func(s *stage)
		account bool // the operator is told
	}{
		"B78 no STARTTLS":     {options: mailtest.Options{NoSTARTTLS: true}, account: true},
		"B78 no AUTH offered": {change: func(s *stage) { s.settings.Server.User = url.UserPassword("u", "p") }, account: true},
		"wrong password":      {options: auth, change: func(s *stage) { s.settings.Server.User = url.UserPassword("u", "wrong") }, account: true},
		"550 to EHLO":         {change: func(s *stage) { s.mail.Script(mailtest.Fault{Phase: mailtest.EHLO, Reply: "550 go away"}) }, account: true},
		"454 to STARTTLS":     {change: func(s *stage) { s.mail.Script(mailtest.Fault{Phase: mailtest.STARTTLS, Reply: "454 no TLS now"}) }},
		"454 to AUTH":         {options: auth, change: func(s *stage) { s.mail.Script(mailtest.Fault{Phase: mailtest.AUTH, Reply: "454 4.7.0 later"}) }},
		"421 greeting": {change: func(s *stage) {
			s.mail.Script(mailtest.Fault{Phase: mailtest.Greeting, Reply: "421 later", End: mailtest.Hangup})
		}},
		"554 greeting":          {change: func(s *stage) { s.mail.Script(mailtest.Fault{Phase: mailtest.Greeting, Reply: "554 no SMTP here"}) }},
		"B76 no greeting":       {change: func(s *stage) { s.mail.Script(mailtest.Fault{Phase: mailtest.Greeting, End: mailtest.Silent}) }},
		"B76 silent at EHLO":    {change: func(s *stage) { s.mail.Script(mailtest.Fault{Phase: mailtest.EHLO, End: mailtest.Silent}) }},
		"B76 plain to TLS port": {options: mailtest.Options{TLS: true}, change: func(s *stage) { s.settings.Server.Scheme = "smtp" }},
		"TLS to plain port":     {change: func(s *stage) { s.settings.Server.Scheme = "smtps" }},
		"unknown authority":     {change: func(s *stage) { s.settings.CAs = x509.NewCertPool() }},
		"nobody listens":        {change: func(s *stage) { s.mail.Stop() }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			times := quick()
			times.Greet = 500 * time.Millisecond
			s := newStage(t, times, tt.options)
			if tt.change != nil {
				tt.change(s)
			}
			r := s.start()
			k := s.confirm()
			for end := time.Now().Add(soon); r.counter(t, "slotwise_smtp_open_failures_total") < 3; <-time.After(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("no connection failed")
				}
			}
			r.end()
			s.await(k, "planned")
			if n := s.number(`select count(*) from notifier.hands`); n != 0 || s.mail.Counts().MAIL != 0 {
				t.Errorf("%d hands, %+v", n, s.mail.Counts())
			}
			if got := r.counter(t, "slotwise_smtp_account_refused_total") > 0; got != tt.account {
				t.Errorf("account refused: %t", got)
			}
		})
	}
}

// The line heals by itself, and every mail goes.
func TestMailServerComesBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	s.mail.Stop()
	r := s.start()
	keys := []string{s.confirm(), s.confirm(), s.confirm()}
	for end := time.Now().Add(soon); r.counter(t, "slotwise_smtp_open_failures_total") < 5; <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no connection failed")
		}
	}
	s.mail.Start()
	s.mail.Wait(3, soon)
	for _, k := range keys {
		s.await(k, "sent")
	}
	s.exactlyOnce(keys...)
	if n := s.number(`select count(*) from notifier.hands`); n != 3 {
		t.Errorf("%d hands: the outage touched rows", n)
	}
}

func TestTLSPolicies(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		options mailtest.Options
		policy  send.Policy
		tls     bool
	}{
		"mandatory":                      {mailtest.Options{}, send.Mandatory, true},
		"mandatory, with a password":     {mailtest.Options{User: "u", Password: "p"}, send.Mandatory, true},
		"smtps":                          {mailtest.Options{TLS: true, User: "u", Password: "p"}, send.Mandatory, true},
		"opportunistic, offered":         {mailtest.Options{}, send.Opportunistic, true},
		"opportunistic, not offered":     {mailtest.Options{NoSTARTTLS: true}, send.Opportunistic, false},
		"none, though offered":           {mailtest.Options{}, send.NoTLS, false},
		"smtps whatever the policy says": {mailtest.Options{TLS: true}, send.NoTLS, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, quick(), tt.options)
			s.settings.TLS = tt.policy
			s.start()
			k := s.confirm()
			s.await(k, "sent")
			if m := s.mail.Messages()[0]; m.TLS != tt.tls || m.User != tt.options.User {
				t.Errorf("TLS %t, user %q", m.TLS, m.User)
			}
		})
	}
}

// B78: opportunistic never means a password in clear.
func TestB78NoPasswordInClear(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a loopback socket
	if err != nil {
		t.Fatal(err)
	}
	var heard chatter
	var serving sync.WaitGroup
	serving.Go(func() { heard.serve(listener) })
	t.Cleanup(func() { listener.Close(); serving.Wait() })
	s.settings.Server, _ = url.Parse("smtp://u:secret@localhost.example:25")
	s.settings.Server.Host = listener.Addr().String()
	s.settings.TLS = send.Opportunistic
	r := s.start()
	s.confirm()
	for end := time.Now().Add(soon); r.counter(t, "slotwise_smtp_account_refused_total") == 0; <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the account was not refused")
		}
	}
	r.end()
	if heard.auth() {
		t.Error("a password went over the wire in clear")
	}
}

// B68: a kept connection that the server has closed is replaced at once, at no cost.
func TestB68ServerClosesIdleConnections(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{Idle: 300 * time.Millisecond})
	s.settings.Connections = 1
	s.start()
	first := s.confirm()
	s.await(first, "sent")
	s.mail.WaitCounts("closed connection", soon, func(c mailtest.Counts) bool { return c.Open == 0 })
	second := s.confirm()
	s.await(second, "sent")
	s.exactlyOnce(first, second)
	if n := s.number(`select attempts from notifier.send_log where key = $1`, second); n != 0 {
		t.Errorf("%d attempts burned", n)
	}
	if c := s.mail.Counts(); c.Conns < 2 {
		t.Errorf("%+v", c)
	}
}

func TestB68KeptConnectionAnswers451(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	s.settings.Connections = 1
	s.mail.Script(mailtest.Fault{Phase: mailtest.DATA, Skip: 1, Times: 1, Reply: "451 4.3.0 idle for too long", End: mailtest.Hangup})
	s.start()
	first := s.confirm()
	s.await(first, "sent")
	second := s.confirm()
	s.await(second, "sent")
	s.exactlyOnce(first, second)
}

// Kept connections are used again, and closed politely when nothing came for a while.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Idle = 3 * time.Second
	s := newStage(t, times, mailtest.Options{})
	s.settings.Connections = 2
	s.start()
	for range 10 {
		s.await(s.confirm(), "sent")
	}
	if c := s.mail.Counts(); c.Conns > 2 {
		t.Errorf("%+v", c)
	}
	s.mail.WaitCounts("QUIT on every connection", soon, func(c mailtest.Counts) bool { return c.QUIT == c.Conns && c.Open == 0 })
	s.await(s.confirm(), "sent")
}

// B71: what is due at once goes over few connections.
func TestB71ManyDueAtOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{MaxConns: 5})
	s.settings.Connections = 5
	const reminders = 500
	var all []sendlog.Message
	for range reminders {
		all = append(all, message(s.book(), sendlog.Reminder))
	}
	s.plan(all...)
	r := s.start()
	s.mail.Wait(reminders, 3*soon)
	r.end()
	if c := s.mail.Counts(); c.Refused != 0 || c.Conns > 5 || c.Accepted != reminders {
		t.Errorf("%+v", c)
	}
	if n := s.number(`select count(*) from notifier.send_log where state = 'sent' and attempts = 0`); n != reminders {
		t.Errorf("%d sent", n)
	}
}

// A server that allows fewer connections than the settings: all mails go over those.
func TestServerAllowsFewerConnections(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{MaxConns: 2})
	s.settings.Connections = 6
	var all []sendlog.Message
	for range 60 {
		all = append(all, message(s.book(), sendlog.Confirm))
	}
	s.plan(all...)
	r := s.start()
	s.mail.Wait(60, soon)
	r.end()
	if n := s.number(`select count(*) from notifier.hands`); n != 60 {
		t.Errorf("%d hands for 60 mails", n)
	}
}

// The account's trouble refuses nobody's mail.
func TestAccountRefusedAtMailFrom(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	s.mail.Script(mailtest.Fault{Phase: mailtest.MAIL, Reply: "550 5.7.1 sender not allowed"})
	r := s.start()
	var keys []string
	for range 10 {
		keys = append(keys, s.confirm())
	}
	s.mail.WaitCounts("20 tries", soon, func(c mailtest.Counts) bool { return c.MAIL >= 20 })
	if n := s.number(`select count(*) from notifier.send_log where state in ('planned', 'handed') and attempts = 0`); n != 10 {
		t.Errorf("%d of 10 still wait", n)
	}
	if r.counter(t, "slotwise_smtp_account_refused_total") == 0 {
		t.Error("nobody is told")
	}
	s.mail.Script()
	for _, k := range keys {
		s.await(k, "sent")
	}
	s.exactlyOnce(keys...)
}

// One mail whose sender is refused does not stand in the way of the others.
func TestOneSenderRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), mailtest.Options{})
	bad := s.confirm()
	s.from = func(h sendlog.Hand) string {
		if h.Key == bad {
			return "bad@slotwise.example"
		}
		return "bookings@slotwise.example"
	}
	s.mail.Script(mailtest.Fault{Phase: mailtest.MAIL, Reply: "550 5.7.1 sender not allowed", Match: func(c mailtest.Command) bool { return c.Arg == "bad@slotwise.example" }})
	s.start()
	var keys []string
	for range 10 {
		keys = append(keys, s.confirm())
	}
	for _, k := range keys {
		s.await(k, "sent")
	}
	s.await(bad, "planned: .*|handed: .*")
}

// B41: ten mailboxes that say later do not stop the eleventh.
func TestB41TenLaterOneAtOnce(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Steps = []time.Duration{time.Hour}
	s := newStage(t, times, mailtest.Options{})
	var later []string
	for range 10 {
		m := message(s.seed.Book(seedBooking("full.example")), sendlog.Confirm)
		s.plan(m)
		later = append(later, m.Key)
	}
	s.mail.Script(mailtest.Fault{Phase: mailtest.RCPT, To: "@full.example", Reply: "451 4.2.2 later"})
	s.start()
	for _, k := range later {
		s.await(k, "planned: 451 4.2.2 later")
	}
	s.await(s.confirm(), "sent")
}
