package chaos

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/e2e/stack"
)

// Two of each service at the same time, guests who come to either booking service, and a
// backlog for the two relays to begin with: each mail goes out once, versions keep their
// order, and each start has one schedule.
func TestTwoOfEach(t *testing.T) {
	t.Parallel()
	h := open(t, withoutRelay, func(c *stack.Config) {
		c.Env["SLOTWISE_TIMES"] = "" // production's: a busy machine must not end a lease
		c.Env["RELAY_BATCH"] = "4"
	})
	booking, _ := h.start("booking")
	h.start("notifier")
	h.start("scheduler")
	if err := h.Await(t.Context(), booking); err != nil {
		t.Fatal(err)
	}
	h.load(20)()
	relays := make([]string, 2)
	for i := range relays {
		relays[i], _ = h.start("relay")
	}
	h.load(20, h.FrontURL(booking))()
	h.settle(60 * time.Second)
	if count := h.keepsThePromise(); count.marks != 0 {
		t.Errorf("%d hands are marked, though nothing failed", count.marks)
	}
	h.everyStartHasItsSchedule()
	for _, name := range relays {
		if n := h.metric(name, "slotwise_relay_published_total"); n == 0 {
			t.Errorf("%s has published nothing: there was only one", name)
		}
	}
}

// metric reads a figure without labels from a copy's admin port.
func (h *house) metric(name, metric string) (value float64) {
	h.T.Helper()
	ctx, cancel := context.WithTimeout(h.T.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.AdminURL(name)+"/metrics", http.NoBody)
	if err != nil {
		h.T.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		h.T.Fatal(err)
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), metric+" "); ok {
			if _, err := fmt.Sscan(text, &value); err != nil {
				h.T.Fatal(err)
			}
			return value
		}
	}
	h.T.Fatalf("%s has no %s", name, metric)
	return 0
}
