package apikey

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/slotwise/slotwise/pkg/retry"
	"go.uber.org/zap"
)

const (
	gather   = time.Second     // between a key's use and the note of it: many are noted at once
	noteTime = 5 * time.Second // for one note
	mostUsed = 1000            // keys that wait to be noted; more are noted at their next use
)

// used are the ids of keys that wait to be noted.
type used struct {
	mu   sync.Mutex
	ids  map[string]struct{}
	wake chan struct{} // capacity 1: wakes coalesce
}

func newUsed() *used {
	return &used{ids: map[string]struct{}{}, wake: make(chan struct{}, 1)}
}

// add never waits.
func (u *used) add(id string) {
	u.mu.Lock()
	if len(u.ids) < mostUsed {
		u.ids[id] = struct{}{}
	}
	u.mu.Unlock()
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

func (u *used) take() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	ids := slices.Sorted(maps.Keys(u.ids))
	clear(u.ids)
	return ids
}

// Run notes when keys were used, to a minute, until ctx ends. A note that fails is made again
// after the key's next use.
func (g *Guard) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.used.wake:
		}
		retry.Sleep(ctx, gather) //nolint:errcheck // at a stop the last note is made at once
		g.noteUsed(ctx)
	}
}

func (g *Guard) noteUsed(ctx context.Context) {
	ids := g.used.take()
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	if err := g.keys.note(ctx, ids); err != nil {
		g.log.Warn("the use of API keys is not noted", zap.Error(err))
	}
}
