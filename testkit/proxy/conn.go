package proxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Conn is one connection through the proxy.
type Conn struct {
	proxy *Proxy
	ends  [2]net.Conn // by the direction that is written there
	gone  chan struct{}
	once  sync.Once

	mu      sync.Mutex
	modes   [2]mode
	changed chan struct{} // closed at each change of modes
}

// Hold keeps the bytes of one direction back until Resume of the proxy.
func (c *Conn) Hold(d Direction) { c.set(d, hold) }

// Drop throws the bytes of one direction away.
func (c *Conn) Drop(d Direction) { c.set(d, drop) }

// CutAt cuts the connection when the next bytes come in that direction; they are lost.
func (c *Conn) CutAt(d Direction) { c.set(d, cut) }

// Cut resets the connection on both sides.
func (c *Conn) Cut() { c.close(true) }

func (c *Conn) close(reset bool) {
	c.once.Do(func() {
		close(c.gone)
		for _, end := range c.ends {
			if tcp, ok := end.(*net.TCPConn); ok && reset {
				_ = tcp.SetLinger(0) // a reset, not a clean end
			}
			_ = end.Close()
		}
	})
}

func (c *Conn) set(d Direction, m mode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.modes[d] = m
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Conn) mode(d Direction) (mode, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.modes[d], c.changed
}

// packet is what was read at once, and when it may be passed on.
type packet struct {
	bytes []byte
	due   time.Time
}

// run pumps both directions and returns when both have ended.
func (c *Conn) run() {
	var pumps sync.WaitGroup
	for _, d := range []Direction{ToServer, ToClient} {
		packets := make(chan packet, 16)
		pumps.Go(func() { c.read(d, packets) })
		pumps.Go(func() { c.write(d, packets) })
	}
	pumps.Wait()
	c.close(false) // both sides have ended by themselves
}

// read takes what comes from the other end than d's. A clean end is passed on behind the
// bytes, a reset at once.
func (c *Conn) read(d Direction, to chan<- packet) {
	defer close(to)
	for buffer := make([]byte, 32<<10); ; {
		n, err := c.ends[1-d].Read(buffer)
		if n > 0 {
			p := packet{bytes: append([]byte(nil), buffer[:n]...), due: time.Now().Add(time.Duration(c.proxy.latency.Load()))}
			select {
			case to <- p:
			case <-c.gone:
				return
			}
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			c.Cut()
			return
		}
	}
}

// memory is how much of what has passed patterns may reach back to.
const memory = 1 << 10

// write passes packets on, as the mode says, and then the end.
func (c *Conn) write(d Direction, from <-chan packet) {
	var seen []byte
	for p := range from {
		if !c.wait(time.Until(p.due)) {
			return
		}
		old := len(seen)
		seen = append(seen, p.bytes...)
		for _, h := range c.proxy.match(d, seen, old) {
			h.do(c)
			close(h.fired)
		}
		seen = append(seen[:0], seen[max(0, len(seen)-memory):]...)
		if !c.forward(d, p.bytes) {
			return
		}
	}
	if !c.await(d) {
		return
	}
	if tcp, ok := c.ends[d].(*net.TCPConn); ok {
		_ = tcp.CloseWrite() // it may have gone
	}
}

// forward does with bytes what the mode says; false when the connection has ended.
func (c *Conn) forward(d Direction, bytes []byte) bool {
	if !c.await(d) {
		return false
	}
	switch m, _ := c.mode(d); m {
	case drop:
		return true
	case cut:
		c.Cut()
		return false
	default:
		if _, err := c.ends[d].Write(bytes); err != nil {
			c.Cut()
			return false
		}
		return true
	}
}

// await waits while the direction is held; false when the connection has ended.
func (c *Conn) await(d Direction) bool {
	for {
		m, changed := c.mode(d)
		if m != hold {
			return !c.ended()
		}
		select {
		case <-changed:
		case <-c.gone:
			return false
		}
	}
}

func (c *Conn) ended() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// wait waits for a time; false when the connection has ended.
func (c *Conn) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-c.gone:
		return false
	}
}
