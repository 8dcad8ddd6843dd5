package proxy_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slotwise/slotwise/testkit/proxy"
)

func TestPass(t *testing.T) {
	t.Parallel()
	p, c := echo(t)
	text := strings.Repeat("0123456789", 100_000)
	go func() {
		_, _ = io.WriteString(c, text) // a failure shows in what comes back
		_ = c.CloseWrite()
	}()
	back, err := io.ReadAll(c)
	if err != nil || string(back) != text {
		t.Errorf("%d of %d bytes came back: %v", len(back), len(text), err)
	}
	eventually(t, "the connection is forgotten", func() bool { open, accepted := p.Conns(); return open == 0 && accepted == 1 })
}

func TestHoldAndResume(t *testing.T) {
	t.Parallel()
	for _, d := range []proxy.Direction{proxy.ToServer, proxy.ToClient} {
		p, c := echo(t)
		p.Hold(d)
		say(t, c, "one")
		if got := hear(c); got != "nothing" {
			t.Errorf("held in direction %d, heard %s", d, got)
		}
		say(t, c, "two")
		p.Resume()
		if got := hear(c) + hear(c); got != "onetwo" {
			t.Errorf("after Resume %s", got)
		}
	}
}

func TestDrop(t *testing.T) {
	t.Parallel()
	for _, d := range []proxy.Direction{proxy.ToServer, proxy.ToClient} {
		p, c := echo(t)
		p.Drop(d)
		say(t, c, "one")
		if got := hear(c); got != "nothing" {
			t.Errorf("dropped in direction %d, heard %s", d, got)
		}
		p.Resume()
		say(t, c, "two")
		if got := hear(c); got != "two" {
			t.Errorf("after Resume %s", got)
		}
	}
}

func TestNewConnectionsAreHeldToo(t *testing.T) {
	t.Parallel()
	p, _ := echo(t)
	p.Hold(proxy.ToServer)
	c := dial(t, p)
	say(t, c, "one")
	if got := hear(c); got != "nothing" {
		t.Errorf("heard %s", got)
	}
	p.Cut() // must not wait for what is held
	if got := hear(c); got != "reset" {
		t.Errorf("after Cut %s", got)
	}
}

func TestCutAndRefuse(t *testing.T) {
	t.Parallel()
	p, c := echo(t)
	p.Refuse()
	p.Refuse()
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) { //nolint:noctx // a loopback socket
		t.Errorf("dial while it refuses: %v", err)
	}
	say(t, c, "one")
	if got := hear(c); got != "one" {
		t.Errorf("Refuse has cut an open connection: %s", got)
	}
	addr := p.Addr()
	p.Accept()
	if p.Addr() != addr {
		t.Errorf("it moved from %s to %s", addr, p.Addr())
	}
	p.Cut()
	if got := hear(c); got != "reset" {
		t.Errorf("after Cut %s", got)
	}
	c = dial(t, p)
	say(t, c, "two")
	if got := hear(c); got != "two" {
		t.Errorf("a new connection: %s", got)
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	p, c := echo(t)
	const delay = 50 * time.Millisecond
	p.Delay(delay)
	start := time.Now()
	for range 10 { // one after the other on the way, not one after the other has come back
		say(t, c, "x")
	}
	for range 10 {
		hear(c)
	}
	if took := time.Since(start); took < 2*delay || took > 8*delay {
		t.Errorf("10 lines at once took %s, want about %s", took, 2*delay)
	}
}

func TestWhen(t *testing.T) {
	t.Parallel()
	pattern := regexp.MustCompile("lose me")
	for name, tt := range map[string]struct {
		d    proxy.Direction
		do   func(*proxy.Conn)
		want string // heard instead of the line
		next string // heard of the next line, or of what follows a reset
	}{
		"the request is lost":          {proxy.ToServer, func(c *proxy.Conn) { c.Drop(proxy.ToServer) }, "nothing", "nothing"},
		"the answer is lost":           {proxy.ToServer, func(c *proxy.Conn) { c.Drop(proxy.ToClient) }, "nothing", "nothing"},
		"cut before it":                {proxy.ToServer, func(c *proxy.Conn) { c.Cut() }, "reset", "end"},
		"cut at the answer":            {proxy.ToServer, func(c *proxy.Conn) { c.CutAt(proxy.ToClient) }, "reset", "end"},
		"seen on the way back":         {proxy.ToClient, func(c *proxy.Conn) { c.Drop(proxy.ToClient) }, "nothing", "nothing"},
		"nothing is done":              {proxy.ToServer, func(*proxy.Conn) {}, "lose me", "next"},
		"held, and let go by the test": {proxy.ToServer, func(c *proxy.Conn) { c.Hold(proxy.ToClient) }, "nothing", "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, c := echo(t)
			fired := p.When(tt.d, pattern, tt.do)
			say(t, c, "pass")
			if got := hear(c); got != "pass" {
				t.Fatalf("before it: %s", got)
			}
			say(t, c, "lose me")
			<-fired
			if got := hear(c); got != tt.want {
				t.Errorf("heard %s, want %s", got, tt.want)
			}
			_, _ = fmt.Fprintln(c, "next") // the connection may be gone
			if got := hear(c); got != tt.next {
				t.Errorf("then heard %s, want %s", got, tt.next)
			}
			other := dial(t, p)
			say(t, other, "lose me")
			if got := hear(other); got != "lose me" {
				t.Errorf("another connection, later: %s", got)
			}
		})
	}
}

func TestWhenSpansPackets(t *testing.T) {
	t.Parallel()
	p, c := echo(t)
	fired := p.When(proxy.ToServer, regexp.MustCompile("a\nb"), func(*proxy.Conn) {})
	for _, line := range []string{"b", "a"} {
		say(t, c, line)
		hear(c)
	}
	select {
	case <-fired:
		t.Fatal("fired before the bytes were there")
	default:
	}
	say(t, c, "b")
	<-fired
}

func TestServerAway(t *testing.T) {
	t.Parallel()
	l := listen(t)
	addr := l.Addr().String()
	_ = l.Close()
	c := dial(t, proxy.New(t, addr))
	if got := hear(c); got != "end" && got != "reset" {
		t.Errorf("heard %s", got)
	}
}

// client is a connection that is read by lines.
type client struct {
	*net.TCPConn
	r *bufio.Reader
}

// Read reads behind the lines that were read ahead.
func (c client) Read(b []byte) (int, error) { return c.r.Read(b) }

// echo starts a server that sends back what it gets, and a connection to it through a proxy.
func echo(t *testing.T) (*proxy.Proxy, client) {
	t.Helper()
	l := listen(t)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the test has ended
			}
			go func() {
				_, _ = io.Copy(conn, conn) // until the proxy ends it
				_ = conn.Close()
			}()
		}
	}()
	p := proxy.New(t, l.Addr().String())
	return p, dial(t, p)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a loopback socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func dial(t *testing.T, p *proxy.Proxy) client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr()) //nolint:noctx // a loopback socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		t.Fatalf("%T is no TCP connection", conn)
	}
	return client{tcp, bufio.NewReader(conn)}
}

func say(t *testing.T, c client, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(c, line); err != nil {
		t.Fatal(err)
	}
}

// patience is how long a silent connection is listened to.
const patience = 200 * time.Millisecond

// hear returns the next line, or what happened instead.
func hear(c client) string {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	line, err := c.r.ReadString('\n')
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "nothing"
	case errors.Is(err, io.EOF):
		return "end"
	case err != nil:
		return "reset"
	}
	return strings.TrimSuffix(line, "\n")
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) { //nolint:forbidigo // polls
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
