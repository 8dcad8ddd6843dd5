package mailtest

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// dialogue is one connection. Its fields belong to its goroutine.
type dialogue struct {
	server   *Server
	stopping <-chan struct{}
	number   int
	conn     net.Conn
	r        *bufio.Reader
	w        *bufio.Writer
	err      error // of the connection; the dialogue ends

	encrypted bool
	greeted   bool   // EHLO was answered
	user      string // authenticated
	message   int    // number of the present message
	from      string
	inMail    bool // between MAIL and the end of its message
	to        []string
	data      []byte
}

func newDialogue(s *Server, conn net.Conn, number int, stopping <-chan struct{}) *dialogue {
	d := &dialogue{server: s, stopping: stopping, number: number}
	if s.o.TLS {
		conn, d.encrypted = tls.Server(conn, s.tls), true
	}
	d.use(conn)
	return d
}

func (d *dialogue) use(conn net.Conn) {
	d.conn, d.r, d.w = conn, bufio.NewReaderSize(conn, 16<<10), bufio.NewWriter(conn)
}

// maxLine is the longest command, RFC 5321 §4.5.3.1.4 with room for extensions.
const maxLine = 2048

func (d *dialogue) run() {
	if !d.step(Greeting, "", "220 mailtest ESMTP", nil) {
		return
	}
	for d.err == nil {
		line, ok := d.readCommand()
		if !ok || !d.command(line) {
			return
		}
	}
}

// readCommand reads a line; false when the connection has ended or was idle for too long.
func (d *dialogue) readCommand() (string, bool) {
	if idle := d.server.o.Idle; idle > 0 {
		_ = d.conn.SetReadDeadline(time.Now().Add(idle))
	}
	line, err := d.r.ReadSlice('\n')
	if errors.Is(err, os.ErrDeadlineExceeded) {
		d.answer("421 4.4.2 idle for too long")
		return "", false
	}
	_ = d.conn.SetReadDeadline(time.Time{})
	if err != nil || len(line) > maxLine {
		return "", false
	}
	return strings.TrimRight(string(line), "\r\n"), true
}

// command handles one line and reports whether the dialogue goes on.
func (d *dialogue) command(line string) bool {
	verb, arg, _ := strings.Cut(line, " ")
	switch strings.ToUpper(verb) {
	case "EHLO", "HELO":
		d.server.count(func(c *Counts) { c.EHLO++ })
		return d.step(EHLO, arg, d.hello(verb), func() { d.greeted = true; d.reset() })
	case "STARTTLS":
		return d.starttls()
	case "AUTH":
		return d.auth(arg)
	case "MAIL":
		return d.mail(arg)
	case "RCPT":
		return d.rcpt(arg)
	case "DATA":
		return d.readData()
	case "RSET":
		d.server.count(func(c *Counts) { c.RSET++ })
		return d.step(RSET, "", "250 2.0.0 reset", d.reset)
	case "NOOP":
		d.server.count(func(c *Counts) { c.NOOP++ })
		return d.step(NOOP, "", "250 2.0.0 here", nil)
	case "QUIT":
		d.server.count(func(c *Counts) { c.QUIT++ })
		return d.step(QUIT, "", "221 2.0.0 bye", nil) && false
	}
	return d.answer("500 5.5.1 unknown command")
}

// hello is the good answer to EHLO or HELO.
func (d *dialogue) hello(verb string) string {
	if strings.EqualFold(verb, "HELO") {
		return "250 mailtest"
	}
	lines := []string{"mailtest", "PIPELINING", "8BITMIME", "ENHANCEDSTATUSCODES", "SIZE " + strconv.Itoa(d.server.o.MaxSize)}
	if !d.encrypted && !d.server.o.NoSTARTTLS {
		lines = append(lines, "STARTTLS")
	}
	if d.server.o.User != "" && d.encrypted {
		lines = append(lines, "AUTH PLAIN LOGIN")
	}
	last := len(lines) - 1
	return "250-" + strings.Join(lines[:last], "\r\n250-") + "\r\n250 " + lines[last]
}

func (d *dialogue) starttls() bool {
	d.server.count(func(c *Counts) { c.STARTTLS++ })
	if d.encrypted || d.server.o.NoSTARTTLS {
		return d.answer("502 5.5.1 no STARTTLS here")
	}
	upgrade := false
	if !d.step(STARTTLS, "", "220 2.0.0 go ahead", func() { upgrade = true }) {
		return false
	}
	if upgrade {
		if !d.flush() {
			return false
		}
		d.use(tls.Server(d.conn, d.server.tls)) // what was sent before the handshake is forgotten
		d.encrypted, d.greeted, d.user = true, false, ""
		d.reset()
	}
	return true
}

func (d *dialogue) auth(arg string) bool {
	d.server.count(func(c *Counts) { c.AUTH++ })
	if d.server.o.User == "" || !d.encrypted || !d.greeted || d.inMail {
		return d.answer("503 5.5.1 no AUTH now")
	}
	mechanism, response, initial := strings.Cut(arg, " ")
	user, password := "", ""
	switch strings.ToUpper(mechanism) {
	case "PLAIN":
		if !initial {
			response = d.challenge("")
		}
		parts := strings.Split(decode64(response), "\x00")
		if len(parts) == 3 {
			user, password = parts[1], parts[2]
		}
	case "LOGIN":
		if !initial {
			response = d.challenge("Username:")
		}
		user = decode64(response)
		password = decode64(d.challenge("Password:"))
	default:
		return d.answer("504 5.5.4 unknown mechanism")
	}
	if user != d.server.o.User || password != d.server.o.Password {
		return d.step(AUTH, mechanism, "535 5.7.8 wrong user or password", nil)
	}
	return d.step(AUTH, mechanism, "235 2.7.0 welcome", func() { d.user = user })
}

// challenge asks for one more line of AUTH.
func (d *dialogue) challenge(text string) string {
	d.answer("334 " + base64.StdEncoding.EncodeToString([]byte(text)))
	line, _ := d.readCommand() // an empty one is a wrong password
	return line
}

func decode64(s string) string {
	b, _ := base64.StdEncoding.DecodeString(s) // a bad one is a wrong password
	return string(b)
}

func (d *dialogue) mail(arg string) bool {
	d.server.count(func(c *Counts) { c.MAIL++ })
	from, params, ok := path(arg, "FROM:")
	size, _ := strconv.Atoi(after(params, "SIZE=")) // 0: not told
	switch {
	case !d.greeted:
		return d.answer("503 5.5.1 EHLO first")
	case !ok:
		return d.answer("501 5.5.4 MAIL FROM:<address>")
	case d.inMail:
		return d.answer("503 5.5.1 nested MAIL")
	case d.server.o.User != "" && d.user == "":
		return d.answer("530 5.7.0 authentication required")
	case size > d.server.o.MaxSize:
		return d.answer("552 5.3.4 too large")
	}
	d.message++
	d.from = from
	return d.step(MAIL, from, "250 2.1.0 sender ok", func() { d.inMail = true })
}

func (d *dialogue) rcpt(arg string) bool {
	d.server.count(func(c *Counts) { c.RCPT++ })
	to, _, ok := path(arg, "TO:")
	switch {
	case !d.inMail:
		return d.answer("503 5.5.1 MAIL first")
	case !ok || to == "":
		return d.answer("501 5.1.3 RCPT TO:<address>")
	}
	d.to = append(d.to, to)
	taken := false
	goesOn := d.step(RCPT, to, "250 2.1.5 recipient ok", func() { taken = true })
	if !taken {
		d.to = d.to[:len(d.to)-1]
	}
	return goesOn
}

func (d *dialogue) reset() {
	d.inMail, d.from, d.to, d.data = false, "", nil, d.data[:0]
}
