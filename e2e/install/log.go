package install

import (
	"bytes"
	"strings"
	"sync"
)

// Log keeps what the parts print, line by line; each begins with the part's name.
type Log struct {
	mu  sync.Mutex
	all []string
}

// Write keeps a line.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(bytes.TrimRight(p, "\n")))
	return len(p), nil
}

// Tail returns the last n lines.
func (l *Log) Tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all[max(0, len(l.all)-n):], "\n")
}

// Lines counts those of a part that hold all the words.
func (l *Log) Lines(part string, words ...string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
lines:
	for _, line := range l.all {
		if name, _, _ := strings.Cut(line, "|"); strings.TrimSpace(name) != part {
			continue
		}
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		n++
	}
	return n
}
