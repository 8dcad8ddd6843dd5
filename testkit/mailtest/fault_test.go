package mailtest_test

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/slotwise/slotwise/testkit/mailtest"
)

// dialogue is what a client says to send one mail, and the good answers.
var dialogue = []struct {
	phase mailtest.Phase
	say   string
	code  string
}{
	{mailtest.Greeting, "", "220"},
	{mailtest.EHLO, "EHLO client", "250"},
	{mailtest.MAIL, "MAIL FROM:<a@example.org> BODY=8BITMIME", "250"},
	{mailtest.RCPT, "RCPT TO:<b@example.org>", "250"},
	{mailtest.DATA, "DATA", "354"},
	{mailtest.Dot, body + ".", "250"},
	{mailtest.QUIT, "QUIT", "221"},
}

func TestFaultInEachPhase(t *testing.T) {
	t.Parallel()
	const dead, mute = "dead", "mute"
	for _, tt := range []struct {
		name     string
		fault    mailtest.Fault
		want     string // what the client hears
		accepted bool   // when the fault is at the dot
	}{
		{"refused", mailtest.Fault{Reply: "451 4.7.1 later"}, "451 4.7.1 later", false},
		{"refused and closed", mailtest.Fault{Reply: "554 5.7.1 never", End: mailtest.Hangup}, "554 5.7.1 never", false},
		{"closed", mailtest.Fault{End: mailtest.Closed}, dead, true},
		{"closed, nothing taken", mailtest.Fault{End: mailtest.Closed, Untaken: true}, dead, false},
		{"silent", mailtest.Fault{End: mailtest.Silent}, mute, true},
		{"silent, nothing taken", mailtest.Fault{End: mailtest.Silent, Untaken: true}, mute, false},
		{"late", mailtest.Fault{Late: time.Millisecond, Delay: time.Millisecond}, "", true},
		{"another good answer", mailtest.Fault{Reply: "250 2.0.0 I am 250"}, "250 2.0.0 I am 250", true},
	} {
		for _, step := range dialogue {
			t.Run(tt.name+" at "+string(step.phase), func(t *testing.T) {
				t.Parallel()
				server := mailtest.New(t, mailtest.Options{})
				fault := tt.fault
				fault.Phase = step.phase
				server.Script(fault)
				got := talk(t, server, step.phase)
				switch {
				case tt.want == "" && !strings.HasPrefix(got, step.code), tt.want != "" && got != tt.want:
					t.Errorf("the client heard %q, want %q", got, tt.want)
				}
				accepted := server.Counts().Accepted == 1
				if step.phase == mailtest.Dot && accepted != tt.accepted || step.phase != mailtest.QUIT && step.phase != mailtest.Dot && accepted {
					t.Errorf("accepted: %t, counts %+v", accepted, server.Counts())
				}
			})
		}
	}
}

// talk sends a mail up to a phase and returns the answer there: "dead" for a closed connection,
// "mute" for none.
func talk(t *testing.T, server *mailtest.Server, upTo mailtest.Phase) string {
	t.Helper()
	c := dial(t, server)
	for _, step := range dialogue {
		answer := c.say(step.say)
		if step.phase == upTo {
			return answer
		}
		if !strings.HasPrefix(answer, step.code) {
			t.Fatalf("%s: %s", step.say, answer)
		}
	}
	return ""
}

func TestSTARTTLSFaults(t *testing.T) {
	t.Parallel()
	server := mailtest.New(t, mailtest.Options{})
	server.Script(mailtest.Fault{Phase: mailtest.STARTTLS, Reply: "454 4.7.0 no TLS today", Times: 1},
		mailtest.Fault{Phase: mailtest.STARTTLS, End: mailtest.Hangup, Times: 1})
	c := dial(t, server)
	c.say("")
	c.say("EHLO client")
	if got := c.say("STARTTLS"); got != "454 4.7.0 no TLS today" {
		t.Errorf("first: %s", got)
	}
	if got := c.say("STARTTLS"); !strings.HasPrefix(got, "220") {
		t.Errorf("second: %s", got)
	}
	if got := c.say(""); got != "dead" {
		t.Errorf("after it: %s", got)
	}

	plain := mailtest.New(t, mailtest.Options{NoSTARTTLS: true})
	if _, err := smtp.DialStartTLS(plain.Addr(), &tls.Config{RootCAs: plain.Pool()}); err == nil {
		t.Error("STARTTLS is offered all the same")
	}
}

func TestWhichCommands(t *testing.T) {
	t.Parallel()
	server := mailtest.New(t, mailtest.Options{})
	server.Script(
		mailtest.Fault{Phase: mailtest.RCPT, To: "bad@example.org", Reply: "550 5.1.1 unknown"},
		mailtest.Fault{Phase: mailtest.RCPT, To: "@busy.example", Skip: 1, Times: 2, Reply: "450 4.2.1 busy"},
		mailtest.Fault{Phase: mailtest.Dot, Match: func(c mailtest.Command) bool { return strings.Contains(string(c.Raw), "Subject: spam") }, Reply: "554 5.7.1 spam"},
		mailtest.Fault{Phase: mailtest.NOOP, Conn: 2, Reply: "421 4.3.2 not you"},
	)
	c, second := dial(t, server), dial(t, server)
	for _, d := range []struct{ say, want string }{
		{"", "220"},
		{"EHLO c", "250"},
		{"MAIL FROM:<>", "250"},
		{"RCPT TO:<BAD@example.org>", "550"},
		{"RCPT TO:<one@BUSY.example>", "250"},
		{"RCPT TO:<two@busy.example>", "450"},
		{"RCPT TO:<two@busy.example>", "450"},
		{"RCPT TO:<two@busy.example>", "250"},
		{"DATA", "354"},
		{"Subject: spam\r\n\r\n.", "554"},
		{"NOOP", "250"},
	} {
		if got := c.say(d.say); !strings.HasPrefix(got, d.want) {
			t.Errorf("%s: %s, want %s", d.say, got, d.want)
		}
	}
	second.say("")
	if got := second.say("NOOP"); !strings.HasPrefix(got, "421") {
		t.Errorf("second connection: %s", got)
	}
}

func TestUntil(t *testing.T) {
	t.Parallel()
	server := mailtest.New(t, mailtest.Options{})
	let := make(chan struct{})
	server.Script(mailtest.Fault{Phase: mailtest.Dot, Until: let})
	answer := make(chan string)
	go func() { answer <- talk(t, server, mailtest.Dot) }()
	server.WaitCounts("dot", 5*time.Second, func(c mailtest.Counts) bool { return c.Dots == 1 })
	if n := server.Counts().Accepted; n != 0 {
		t.Errorf("%d accepted before it may", n)
	}
	close(let)
	if got := <-answer; !strings.HasPrefix(got, "250") {
		t.Errorf("answer %s", got)
	}
}

// A server may take a message whose sender has gone: the danger behind every "unknown".
func TestAcceptsAfterTheClientHasGone(t *testing.T) {
	t.Parallel()
	server := mailtest.New(t, mailtest.Options{})
	let := make(chan struct{})
	server.Script(mailtest.Fault{Phase: mailtest.Dot, Until: let})
	c := dial(t, server)
	for _, step := range dialogue[:5] {
		c.say(step.say)
	}
	fmt.Fprint(c.conn, body+".\r\n")
	server.WaitCounts("dot", 5*time.Second, func(c mailtest.Counts) bool { return c.Dots == 1 })
	must(t, c.conn.Close())
	close(let)
	server.Wait(1, 5*time.Second)
}
