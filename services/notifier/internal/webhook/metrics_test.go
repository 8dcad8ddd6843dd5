package webhook

import (
	"fmt"
	"testing"

	"github.com/slotwise/slotwise/testkit/hooktest"
)

// The metrics name a hundred endpoints, however many there are.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.hooks.Script(hooktest.Fault{Path: "/bad", Status: 500})
	s.times.Steps = s.times.Steps[:1]
	for i := range 130 {
		s.endpoint(fmt.Sprintf("we_%03d", i), s.hooks.URL("/a"))
	}
	s.exec(`update notifier.endpoints set url = $1 where id in ('we_007', 'we_129')`, s.hooks.URL("/bad"))
	r := s.start()
	s.until("the labels are known", func() bool { return r.metrics.labels.of("we_099") != other })
	var keys []string
	for i := range 130 {
		keys = append(keys, s.plan(fmt.Sprintf("we_%03d", i)))
	}
	for i, key := range keys {
		if i == 7 || i == 129 {
			s.await(key, "held")
		} else {
			s.await(key, "sent")
		}
	}
	for _, tt := range []struct {
		name, label string
		want        float64
	}{
		{"slotwise_webhook_tries_total", "we_000", 1},
		{"slotwise_webhook_tries_total", "we_007", 2},
		{"slotwise_webhook_tries_total", other, 31},
		{"slotwise_webhook_failures_total", "we_007", 2},
		{"slotwise_webhook_failures_total", other, 2},
		{"slotwise_webhooks_held", "we_007", 1},
		{"slotwise_webhooks_held", other, 1},
		{"slotwise_webhooks_waiting", other, 0},
		{"slotwise_webhooks_in_hand", "", 0},
	} {
		s.until(tt.name+" of "+tt.label, func() bool { return r.counter(t, tt.name, tt.label) == tt.want })
	}
	s.exec(`update notifier.endpoints set deleted_at = now(), enabled = false, disabled_at = now(), disabled_reason = 'x', url = null, owner = null where id < 'we_050'`)
	if err := r.metrics.labels.learn(t.Context(), r.pool); err != nil || len(r.metrics.labels.known) != mostLabels {
		t.Errorf("%d labels: %v", len(r.metrics.labels.known), err)
	}
}
