package sendlog

import (
	"context"
	_ "embed"
	"fmt"
)

//go:embed sweep.sql
var sweepSQL string

// Sweep marks the hands whose lease is over, of this process or any other, and returns how
// many: their senders died, froze or lost PostgreSQL, so nobody knows whether a mail went.
// Their rows may be handed again at once; the rest of each slot waits for the quiet time.
func (l *Log) Sweep(ctx context.Context) (marks int, err error) {
	marked, err := l.names(ctx, sweepSQL, l.times.Quiet, l.times.MaxUnknowns)
	if err != nil {
		return 0, fmt.Errorf("sweep: %w", err)
	}
	if len(marked) > 0 {
		l.Wake()
	}
	keys := make([]string, 0, len(marked))
	for n := range marked {
		keys = append(keys, n.Key)
	}
	return len(marked), l.putOff(ctx, keys)
}
