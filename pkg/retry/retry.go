// Package retry says how long to wait before the next try: a wait that doubles up to a cap,
// with jitter, because equal waits arrive together again.
package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is a wait that doubles from Base to Max.
type Backoff struct {
	Base, Max time.Duration
}

// Delay is how long to wait after try n, counted from 1: between half of Base·2ⁿ⁻¹ and all of
// it, never more than Max. Half is kept so that a first retry never comes at once (AWS
// Architecture Blog, "Exponential Backoff And Jitter", 2015, calls this equal jitter).
func (b Backoff) Delay(n int) time.Duration {
	wait := b.Base
	for i := 1; i < n && wait < b.Max; i++ {
		wait *= 2
	}
	wait = min(wait, b.Max)
	return wait/2 + rand.N(wait/2+1) //nolint:gosec // jitter
}

// Sleep waits for d, or returns the context's error as soon as that ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the context's own
	case <-timer.C:
		return nil
	}
}
