package relay

import (
	"errors"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/ops"
	"github.com/slotwise/slotwise/pkg/topology"
)

// Within the dedupe window an operator's replay arrives all the same, under new message ids;
// what is counted is what the stream has stored; a page asked for twice is stored once.
func TestB51RepublishIsStored(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	relay, _ := r.start(nil)
	began := time.Now().Add(-time.Minute)
	r.fill(25)
	r.eventuallyCount("published_at is not null", 25)

	order := Republish{Since: began, Run: "r1", Limit: 10}
	var pages, stored int
	for more := true; more; pages++ {
		page, err := relay.republish(t.Context(), "dev", order)
		if err != nil {
			t.Fatal(err)
		}
		stored += page.Stored
		order.After, more = page.Last, page.More
	}
	if stored != 25 || pages != 3 {
		t.Errorf("%d events stored in %d pages, want 25 in 3", stored, pages)
	}
	if n := r.bus.Messages(t.Context(), topology.Bookings); n != 50 {
		t.Errorf("%d messages in the stream, want 50", n)
	}
	again, err := relay.republish(t.Context(), "dev", Republish{Since: began, Run: "r1", Limit: 10})
	if err != nil || again.Stored != 0 || again.Duplicates != 10 {
		t.Errorf("the first page again: %+v, %v, want 10 duplicates", again, err)
	}
	if later, err := relay.republish(t.Context(), "dev", Republish{Since: time.Now().Add(time.Hour), Run: "r2"}); err != nil || later.Stored != 0 || later.More {
		t.Errorf("nothing kept since then: %+v, %v", later, err)
	}
	var recorded int
	err = r.db.Admin.QueryRow(t.Context(), `select count(*) from notifier.operations where operation = 'republish' and operator = 'dev'`).Scan(&recorded)
	if err != nil || recorded != 4 {
		t.Errorf("%d operations recorded, %v, want 4", recorded, err)
	}
}

func TestRepublishRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	relay, _ := r.start(nil)
	for name, order := range map[string]Republish{
		"no time": {Run: "r1"}, "no run": {Since: time.Now()}, "a run that is no word": {Since: time.Now(), Run: "a.b"},
	} {
		if _, err := relay.republish(t.Context(), "dev", order); !isBadRequest(err) {
			t.Errorf("%s: %v, want a bad request", name, err)
		}
	}
}

func isBadRequest(err error) bool {
	_, ok := errors.AsType[*ops.BadRequestError](err)
	return ok
}
