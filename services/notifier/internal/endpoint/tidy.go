package endpoint

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/slotwise/slotwise/pkg/retry"
	"go.uber.org/zap"
)

// tidyEvery is how often [Store.Run] tidies: an expired secret signs nothing even before that.
const tidyEvery = time.Minute

// Run tidies every minute until ctx ends, and returns nil then. What fails is logged and done at
// the next turn.
func (s *Store) Run(ctx context.Context, log *zap.Logger) error {
	for ctx.Err() == nil {
		if _, err := s.Tidy(ctx); err != nil && ctx.Err() == nil {
			log.Warn("endpoints not tidied", zap.Error(err))
		}
		jitter := rand.N(tidyEvery / 10)   //nolint:gosec // replicas that start together part
		retry.Sleep(ctx, tidyEvery-jitter) //nolint:errcheck // the loop looks at the context
	}
	return nil
}
