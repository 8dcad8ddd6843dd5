package send

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/slotwise/slotwise/pkg/retry"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"go.uber.org/zap"
)

// line is one connection after the other to the mail server. It opens one when somebody wants
// it, offers itself for hands, and closes it when nothing came for a while.
type line struct {
	s        *Sender
	hand     chan sendlog.Hand // one place: a line that was chosen gets exactly one
	failures int               // since the last 250
}

// run is the line's life, until ctx ends and what is in hand is finished.
func (l *line) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.s.wanted:
		}
		l.s.closed.Add(-1)
		again := l.once(ctx)
		l.s.closed.Add(1)
		if again {
			l.s.want()
			continue
		}
		if l.failures > 0 { // the breaker: longer after each failure, until a mail is accepted
			_ = retry.Sleep(ctx, l.s.backoff.Delay(l.failures)) // ends early with ctx
		}
	}
}

// once opens a connection and serves it. Again reports that another one is wanted at once.
func (l *line) once(ctx context.Context) (again bool) {
	c, failed := l.s.open(ctx)
	if failed != nil {
		l.noteOpen(ctx, failed)
		return false
	}
	l.s.metrics.connections.Inc()
	defer l.s.metrics.connections.Dec()
	return l.serve(ctx, c)
}

// serve carries hands until the connection is no good any more, or not needed.
func (l *line) serve(ctx context.Context, c *connection) (again bool) {
	defer context.AfterFunc(l.s.drained, c.drop)()
	for {
		h, ok := l.next(ctx)
		if !ok {
			c.quit()
			return false
		}
		used := c.mails > 0
		c.mails++
		e := l.s.dialogue(c, h)
		if e.outcome == sendlog.Accepted {
			l.failures = 0
		}
		if e.fate == dead && !used { // not an old connection's end: the server's trouble
			e.fate = drop
		}
		if e.fate == drop || e.fate == account {
			l.failures++
		}
		if e.phase == phaseMail && e.code != 0 && e.code != 421 {
			e.wait = l.s.backoff.Delay(l.failures) // so that another mail is tried next
		}
		l.s.finish(h, e)
		switch {
		case e.fate == dead:
			c.drop()
			return true
		case e.fate == drop, e.fate == account, e.fate == reset && !l.reset(c):
			c.drop()
			return false
		}
	}
}

// reset ends a transaction that was refused by a clean answer.
func (l *line) reset(c *connection) bool {
	c.deadline(time.Now().Add(l.s.log.Times().Dot))
	return c.client.Reset() == nil
}

// next offers the line and waits for a hand; false when none came for a while, or none will.
func (l *line) next(ctx context.Context) (sendlog.Hand, bool) {
	l.s.idle.put(l)
	if l.s.hungry.Load() {
		l.s.look()
	}
	timer := time.NewTimer(l.s.log.Times().Idle)
	defer timer.Stop()
	select {
	case h := <-l.hand:
		return h, true
	case <-timer.C:
	case <-ctx.Done():
	}
	if l.s.idle.remove(l) {
		return sendlog.Hand{}, false
	}
	return <-l.hand, true // it was chosen meanwhile
}

// noteOpen counts and tells of a connection that could not be had.
func (l *line) noteOpen(ctx context.Context, err *openError) {
	if ctx.Err() != nil {
		return
	}
	l.failures++
	l.s.metrics.failures.WithLabelValues(err.step).Inc()
	fields := []zap.Field{zap.String("phase", err.step), zap.Int("failures", l.failures), zap.Error(err)}
	if err.account() {
		l.s.metrics.account.Inc()
		l.s.logger.Error("mail server refuses the account", fields...)
		return
	}
	l.s.logger.Warn("mail server can't be reached", fields...)
}

// idleLines are the lines that wait for a hand.
type idleLines struct {
	mu    sync.Mutex
	lines []*line
}

func (i *idleLines) put(l *line) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lines = append(i.lines, l)
}

// pop takes the line that was used last, so that those which are not needed close; nil: none.
func (i *idleLines) pop() *line {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.lines) == 0 {
		return nil
	}
	l := i.lines[len(i.lines)-1]
	i.lines = i.lines[:len(i.lines)-1]
	return l
}

// remove takes l out; false when it was chosen already.
func (i *idleLines) remove(l *line) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	at := slices.Index(i.lines, l)
	if at < 0 {
		return false
	}
	i.lines = slices.Delete(i.lines, at, at+1)
	return true
}

func (i *idleLines) len() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.lines)
}
