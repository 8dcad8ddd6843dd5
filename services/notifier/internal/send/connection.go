package send

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/wneessen/go-mail/smtp"
)

// connection is an open, encrypted (if so told) and authenticated connection.
type connection struct {
	raw    net.Conn // below TLS: deadlines and dropping work on it
	client *smtp.Client
	mails  int // hands that it has carried
}

// deadline bounds everything that is read or written from now on.
func (c *connection) deadline(t time.Time) { _ = c.raw.SetDeadline(t) } // fails only on a closed one

// drop closes the socket at once and forgets what it has not sent yet: a half-written mail
// must not be completed by the kernel.
func (c *connection) drop() {
	if tcp, ok := c.raw.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only on a closed one
	}
	_ = c.raw.Close()
}

// quit takes leave as is polite between mails.
func (c *connection) quit() {
	c.deadline(time.Now().Add(time.Second))
	_ = c.client.Quit() // nobody to tell
	_ = c.raw.Close()
}

// Sentinels for a server that does not offer what the settings want.
var (
	errNoTLS  = errors.New("the server offers no STARTTLS")
	errNoAUTH = errors.New("the server offers no AUTH that may be used on this connection")
)

// openError says at which step a connection could not be had.
type openError struct {
	step string // connect, greeting, EHLO, STARTTLS, AUTH
	err  error
}

func (e *openError) Error() string { return "open connection: " + e.step + ": " + e.err.Error() }
func (e *openError) Unwrap() error { return e.err }

// account reports whether waiting alone will not help: the server does not take us as we are.
func (e *openError) account() bool {
	a, ok := answered(e.err)
	return errors.Is(e.err, errNoTLS) || errors.Is(e.err, errNoAUTH) || ok && a.code/100 == 5 && e.step != "greeting"
}

// open connects, greets, encrypts and authenticates, each within its time. It ends early with
// ctx.
func (s *Sender) open(ctx context.Context) (*connection, *openError) {
	times := s.log.Times()
	dialer := net.Dialer{Timeout: times.Connect}
	raw, err := dialer.DialContext(ctx, "tcp", s.settings.address())
	if err != nil {
		return nil, &openError{"connect", err}
	}
	c := &connection{raw: raw}
	stop := context.AfterFunc(ctx, c.drop)
	step, err := s.greet(ctx, c, times.Greet)
	if !stop() && err == nil { // dropped meanwhile
		step, err = "greeting", context.Cause(ctx)
	}
	if err != nil {
		c.drop()
		return nil, &openError{step, err}
	}
	return c, nil
}

// greet does everything up to the first mail; each step has limit.
func (s *Sender) greet(ctx context.Context, c *connection, limit time.Duration) (step string, err error) {
	next := func() { c.deadline(time.Now().Add(limit)) }
	next()
	host := s.settings.Server.Hostname()
	conn := c.raw
	encrypted := s.settings.Server.Scheme == "smtps"
	if encrypted {
		secure := tls.Client(c.raw, s.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			return "TLS", err
		}
		conn = secure
	}
	if c.client, err = smtp.NewClient(conn, host); err != nil {
		return "greeting", err
	}
	next()
	if err := c.client.Hello(s.settings.Hello); err != nil {
		return "EHLO", err
	}
	if !encrypted && s.settings.TLS != NoTLS {
		offered, _ := c.client.Extension("STARTTLS")
		if !offered && s.settings.TLS == Mandatory {
			return "STARTTLS", errNoTLS
		}
		if offered {
			next()
			if err := c.client.StartTLS(s.tls); err != nil {
				return "STARTTLS", err
			}
			encrypted = true
		}
	}
	if s.settings.Server.User == nil {
		return "", nil
	}
	auth, err := s.auth(c.client, encrypted)
	if err != nil {
		return "AUTH", err
	}
	next()
	if err := c.client.Auth(auth); err != nil {
		return "AUTH", err
	}
	return "", nil
}

// auth chooses a mechanism that the server offers. The password goes over an encrypted
// connection, or by a mechanism that hides it, or in clear when the settings want no TLS.
func (s *Sender) auth(client *smtp.Client, encrypted bool) (smtp.Auth, error) {
	_, words := client.Extension("AUTH")
	offered := strings.Fields(strings.ToUpper(words))
	user, host := s.settings.Server.User.Username(), s.settings.Server.Hostname()
	password, _ := s.settings.Server.User.Password()
	inClear := s.settings.TLS == NoTLS
	for _, mechanism := range []struct {
		name    string
		allowed bool
		auth    smtp.Auth
	}{
		{"SCRAM-SHA-256", true, smtp.ScramSHA256Auth(user, password)},
		{"PLAIN", encrypted || inClear, smtp.PlainAuth("", user, password, host, inClear)},
		{"LOGIN", encrypted || inClear, smtp.LoginAuth(user, password, host, inClear)},
		{"CRAM-MD5", true, smtp.CRAMMD5Auth(user, password)},
	} {
		if mechanism.allowed && slices.Contains(offered, mechanism.name) {
			return mechanism.auth, nil
		}
	}
	return nil, fmt.Errorf("%w (%s)", errNoAUTH, words)
}
