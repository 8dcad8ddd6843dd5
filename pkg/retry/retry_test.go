package retry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/retry"
)

func TestDelay(t *testing.T) {
	b := retry.Backoff{Base: time.Second, Max: time.Minute}
	tests := map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 1000: time.Minute, 0: time.Second}
	for n, most := range tests {
		for range 100 {
			if got := b.Delay(n); got < most/2 || got > most {
				t.Fatalf("Delay(%d) = %v, want %v to %v", n, got, most/2, most)
			}
		}
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := retry.Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("Sleep = %v", err)
	}
}
