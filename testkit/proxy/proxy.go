package proxy

import (
	"context"
	"net"
	"net/url"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Direction is one of the two ways through the proxy.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// mode is what happens to bytes in one direction.
type mode int

const (
	pass mode = iota
	hold
	drop
	cut
)

// Commit matches the end of a COMMIT that a client sends to PostgreSQL, in the simple and in
// the extended protocol (where it is parsed).
var Commit = regexp.MustCompile(`(?i)commit\x00`)

// Proxy stands in front of one server. Its methods are safe for concurrent use.
type Proxy struct {
	tb      testing.TB
	target  string
	addr    string
	latency atomic.Int64
	life    context.Context // ends with the proxy
	kill    context.CancelFunc

	mu       sync.Mutex
	listener net.Listener // nil while it refuses
	conns    map[*Conn]bool
	modes    [2]mode // of new connections
	hooks    []*hook
	accepted int

	running sync.WaitGroup
}

// hook waits for bytes to pass.
type hook struct {
	direction Direction
	pattern   *regexp.Regexp
	do        func(*Conn)
	fired     chan struct{}
}

// New starts a proxy on 127.0.0.1 for the server at target: host:port, or a URL with both.
// It ends with tb.
func New(tb testing.TB, target string) *Proxy {
	tb.Helper()
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		target = u.Host
	}
	p := &Proxy{tb: tb, target: target, addr: "127.0.0.1:0", conns: map[*Conn]bool{}}
	p.life, p.kill = context.WithCancel(context.WithoutCancel(tb.Context()))
	p.Accept()
	tb.Cleanup(p.end)
	return p
}

// Addr is what clients connect to, host:port. It never changes.
func (p *Proxy) Addr() string { return p.addr }

// URL is a server's URL with the proxy's address in place of the server's.
func (p *Proxy) URL(server string) string {
	p.tb.Helper()
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		p.tb.Fatal("proxy: not a URL with a host (not shown, it may hold a password)")
	}
	u.Host = p.addr
	return u.String()
}

// Conns returns how many connections are open, and how many there have been.
func (p *Proxy) Conns() (open, accepted int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns), p.accepted
}

// Cut resets all connections. New ones get through.
func (p *Proxy) Cut() { p.each(func(c *Conn) { c.Cut() }) }

// Refuse closes the port: new connections are refused, those that are open go on.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
}

// Accept opens the port again after Refuse.
func (p *Proxy) Accept() {
	p.tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return
	}
	l, err := net.Listen("tcp", p.addr) //nolint:noctx // a loopback socket
	if err != nil {
		p.tb.Fatalf("proxy: %v", err)
	}
	p.addr, p.listener = l.Addr().String(), l
	p.running.Go(func() { p.serve(l) })
}

// Hold keeps the bytes of one direction back, on all connections and on new ones, until Resume.
func (p *Proxy) Hold(d Direction) { p.set(d, hold) }

// Drop throws the bytes of one direction away, on all connections and on new ones, until Resume.
func (p *Proxy) Drop(d Direction) { p.set(d, drop) }

// Resume lets both directions pass on all connections; what was held goes on first.
func (p *Proxy) Resume() { p.set(ToServer, pass); p.set(ToClient, pass) }

// Delay adds latency to each direction: a round trip takes twice d longer. 0 is none.
func (p *Proxy) Delay(d time.Duration) { p.latency.Store(int64(d)) }

// When calls do once, before bytes that match pattern are passed on, with the connection on
// which they come; the pattern may span packets, up to 1 KiB. So c.Drop(ToServer) in do loses
// the match itself (with its packet), c.Drop(ToClient) its answer. The channel is closed
// after do has returned.
func (p *Proxy) When(d Direction, pattern *regexp.Regexp, do func(c *Conn)) <-chan struct{} {
	h := &hook{direction: d, pattern: pattern, do: do, fired: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hooks = append(p.hooks, h)
	return h.fired
}

// match takes the hooks that seen matches beyond its first old bytes; nobody else gets them.
func (p *Proxy) match(d Direction, seen []byte, old int) (fire []*hook) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var rest []*hook
	for _, h := range p.hooks {
		if h.direction == d && h.matches(seen, old) {
			fire = append(fire, h)
		} else {
			rest = append(rest, h)
		}
	}
	p.hooks = rest
	return fire
}

func (h *hook) matches(seen []byte, old int) bool {
	for _, at := range h.pattern.FindAllIndex(seen, -1) {
		if at[1] > old {
			return true
		}
	}
	return false
}

func (p *Proxy) set(d Direction, m mode) {
	p.mu.Lock()
	p.modes[d] = m
	p.mu.Unlock()
	p.each(func(c *Conn) { c.set(d, m) })
}

func (p *Proxy) each(do func(*Conn)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		do(c)
	}
}

func (p *Proxy) serve(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return // refused or ended
		}
		p.running.Go(func() { p.relay(client) })
	}
}

// relay connects a client with the server until either ends.
func (p *Proxy) relay(client net.Conn) {
	server, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(p.life, "tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	c := &Conn{proxy: p, changed: make(chan struct{}), gone: make(chan struct{})}
	c.ends = [2]net.Conn{ToServer: server, ToClient: client}
	p.mu.Lock()
	c.modes = p.modes
	p.conns[c] = true
	p.accepted++
	ended := p.life.Err() != nil
	p.mu.Unlock()
	if ended {
		c.Cut()
	}
	c.run()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *Proxy) end() {
	p.Refuse()
	p.mu.Lock()
	p.kill()
	p.mu.Unlock()
	p.Cut()
	p.running.Wait()
}
