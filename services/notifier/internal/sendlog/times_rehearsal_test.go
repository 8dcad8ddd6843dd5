//go:build rehearsal

package sendlog_test

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

func TestRehearsedTimes(t *testing.T) {
	t.Parallel()
	read := func(text string) (sendlog.Times, error) {
		env := config.New("notifier", func(name string) string {
			return map[string]string{"SLOTWISE_TIMES": text}[name]
		})
		times := sendlog.ReadTimes(env)
		return times, env.Err()
	}
	times, err := read("dot=1s,answer=2s,cap=3s, quiet=4s,lease=600ms,renew=200ms,step=50ms")
	if err != nil || times.Quiet != 4*time.Second || times.Lease != 600*time.Millisecond || len(times.Steps) != 1 || times.CatchUp != 24*time.Hour {
		t.Errorf("%+v: %v", times, err)
	}
	for _, text := range []string{"quiet=1s", "lease", "leese=1s", "lease=long"} {
		if _, err := read(text); err == nil {
			t.Errorf("%s: no mistake", text)
		}
	}
}
