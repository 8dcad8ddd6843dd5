package relay

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func value(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	r := newRig(t, small)
	registry := prometheus.NewRegistry()
	pool := r.db.Pool(role)
	NewMetrics(registry, r.table, pool)
	r.write(event(1, 1), event(1, 2))
	gather := func() map[string]float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]float64{}
		for _, f := range families {
			all[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
		}
		return all
	}
	got := gather()
	if got["slotwise_outbox_waiting"] != 2 || got["slotwise_outbox_oldest_seconds"] <= 0 {
		t.Errorf("backlog: %v", got)
	}
	names := []string{
		"slotwise_outbox_oldest_seconds", "slotwise_outbox_parked", "slotwise_outbox_waiting",
		"slotwise_relay_duplicates_total", "slotwise_relay_paused", "slotwise_relay_pauses_total",
		"slotwise_relay_published_total", "slotwise_relay_refused_total", "slotwise_relay_transaction_seconds",
	}
	for _, name := range names {
		if _, ok := got[name]; !ok {
			t.Errorf("no %s", name)
		}
	}
	// With the database away the rest is still told.
	r.db.Admin.Exec(t.Context(), `drop table booking.outbox_events cascade`) //nolint:errcheck // seen below
	got = gather()
	if _, ok := got["slotwise_outbox_waiting"]; ok || !slices.Contains(names, "slotwise_relay_paused") || len(got) != len(names)-3 {
		t.Errorf("without a table: %v", got)
	}
}
