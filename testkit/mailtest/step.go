package mailtest

import (
	"io"
	"time"
)

// step does one command: what act says and the good answer, or what the script says. It
// reports whether the dialogue goes on.
func (d *dialogue) step(phase Phase, arg, good string, act func()) bool {
	c := Command{Phase: phase, Conn: d.number, Message: d.message, Arg: arg, From: d.from, To: d.to}
	if phase == Dot {
		c.Raw = d.data
	}
	f := d.server.find(c)
	if !d.wait(f.Delay, f.Until) {
		return false
	}
	if act != nil && !f.refuses() {
		act()
	}
	if !d.wait(f.Late, nil) {
		return false
	}
	switch f.End {
	case Answered, Hangup:
	case Silent:
		_ = d.w.Flush()                    // answers to commands before this one
		_, _ = io.Copy(io.Discard, d.conn) // until the client leaves, or Stop
		return false
	case Closed:
		_ = d.w.Flush()
		return false
	}
	reply := good
	if f.Reply != "" {
		reply = f.Reply
	}
	return d.answer(reply) && f.End == Answered
}

// wait waits for d and for until; false when the server stops.
func (d *dialogue) wait(delay time.Duration, until <-chan struct{}) bool {
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-d.stopping:
			return false
		}
	}
	if until != nil {
		select {
		case <-until:
		case <-d.stopping:
			return false
		}
	}
	return true
}

// answer writes a reply; pipelined commands get theirs in one packet.
func (d *dialogue) answer(reply string) bool {
	_, d.err = d.w.WriteString(reply + "\r\n")
	if d.err != nil {
		return false
	}
	return d.r.Buffered() > 0 || d.flush()
}

func (d *dialogue) flush() bool {
	d.err = d.w.Flush()
	return d.err == nil
}
