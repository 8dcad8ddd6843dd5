package bustest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// log keeps the server's log until the test ends; it is a server.Logger.
type log struct {
	always bool
	mu     sync.Mutex
	lines  []string
}

// logLimit bounds the lines that are kept: the last ones matter.
const logLimit = 2000

func (l *log) add(level, format string, args ...any) {
	l.line(time.Now().Format("15:04:05.000 ") + level + " " + fmt.Sprintf(format, args...))
}

func (l *log) line(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == logLimit {
		l.lines = l.lines[logLimit/2:]
	}
	l.lines = append(l.lines, text)
}

func (l *log) Noticef(format string, v ...any) { l.add("INF", format, v...) }
func (l *log) Warnf(format string, v ...any)   { l.add("WRN", format, v...) }
func (l *log) Fatalf(format string, v ...any)  { l.add("FTL", format, v...) }
func (l *log) Errorf(format string, v ...any)  { l.add("ERR", format, v...) }
func (l *log) Debugf(format string, v ...any)  { l.add("DBG", format, v...) }
func (l *log) Tracef(format string, v ...any)  { l.add("TRC", format, v...) }

// show writes what was kept to the test's log, if the test failed or it is wanted.
func (l *log) show(tb testing.TB) {
	tb.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if tb.Failed() || l.always {
		tb.Logf("nats-server's log:\n%s", strings.Join(l.lines, "\n"))
	}
}
