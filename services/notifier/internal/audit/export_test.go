package audit

import "time"

// Chunk makes each transaction take at most n rows.
func (a *Audit) Chunk(n int) { a.chunk = n }

// Hang makes it look as if nothing had been audited for d.
func (a *Audit) Hang(d time.Duration) {
	then := time.Now().Add(-d)
	a.beat.Store(&then)
}

// The statements, for EXPLAIN.
var (
	BehindSQL = behindSQL
	MissedSQL = missedSQL
)
