// Package scenario tests what only the whole can show: each test runs the real programs as
// processes, with a database and a nats-server of its own, and goes through the front door.
package scenario

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/testkit/checkout"
	"github.com/slotwise/slotwise/testkit/dbtest"
)

// built is the folder with the programs, made once for all tests of this package, with the
// race detector and with the times that only rehearsals may shorten.
var built struct {
	once sync.Once
	root string
	bin  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.bin != "" {
		os.RemoveAll(built.bin) //nolint:errcheck // a temporary folder
	}
	os.Exit(code)
}

func build() {
	if built.root, built.err = checkout.Root(); built.err != nil {
		return
	}
	if built.bin, built.err = os.MkdirTemp("", "slotwise-bin-"); built.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	built.err = stack.Build(ctx, built.root, built.bin, os.Stderr, "-race", "-tags", "rehearsal")
}

// run starts a stack for the test, changed by the given functions, and stops it at its end.
func run(t *testing.T, change ...func(*stack.Config)) *installation {
	t.Helper()
	built.once.Do(build)
	if built.err != nil {
		t.Fatal(built.err)
	}
	db := dbtest.New(t)
	log := &logFile{}
	c := stack.Config{
		Root: built.root, Bin: built.bin, Dir: filepath.Join(t.TempDir(), "data"), Out: log,
		DatabaseURL: db.URL(""), Password: dbtest.Password,
		Env: map[string]string{"SLOTWISE_TIMES": "", "LOG_LEVEL": "debug"},
	}
	for _, f := range change {
		f(&c)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the stack's log:\n%s", log.tail(200))
		}
	})
	s, err := stack.Start(t.Context(), c)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	in := &installation{Stack: s, t: t, db: db, dir: c.Dir, log: log}
	in.resources()
	return in
}

// logFile keeps what the stack prints.
type logFile struct {
	mu    sync.Mutex
	lines []string
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

func (l *logFile) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines[max(0, len(l.lines)-n):], "\n")
}

// contains counts the lines that hold all the words.
func (l *logFile) contains(words ...string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
lines:
	for _, line := range l.lines {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		n++
	}
	return n
}

// eventually polls check until it is true, or fails the test.
func eventually(t *testing.T, within time.Duration, what string, check func() (bool, error)) {
	t.Helper()
	end := time.Now().Add(within)
	for {
		ok, err := check()
		if ok && err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v (last error: %v)", what, within, err)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
