package stack

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// lines gives each part a writer whose lines come out whole and begin with the part's name.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lines) of(name string) io.Writer { return &prefixed{lines: l, name: name} }

type prefixed struct {
	lines *lines
	name  string
	mu    sync.Mutex
	rest  []byte // a line that has no end yet
}

// Write prints the whole lines in p and keeps the rest.
func (w *prefixed) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		w.lines.mu.Lock()
		_, err := fmt.Fprintf(w.lines.to, "%-10s| %s\n", w.name, line)
		w.lines.mu.Unlock()
		w.rest = append([]byte(nil), rest...)
		if err != nil {
			return 0, fmt.Errorf("print: %w", err)
		}
	}
}
