package audit

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var lag = prometheus.NewDesc("slotwise_audit_lag_seconds", "Seconds since an audit, of any replica, had passed everything.", nil, nil)

// Describe names what the audit counts.
func (a *Audit) Describe(to chan<- *prometheus.Desc) {
	a.planned.Describe(to)
	to <- lag
}

// Collect reads the counts, and the lag from PostgreSQL within five seconds or not at all.
func (a *Audit) Collect(to chan<- prometheus.Metric) {
	a.planned.Collect(to)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var seconds float64
	err := a.pool.QueryRow(ctx, `
		select extract(epoch from clock_timestamp() - passed_at)::float8
		from notifier.progress
		where name = 'audit'`).Scan(&seconds)
	if err == nil { // else the pool's readiness tells
		to <- prometheus.MustNewConstMetric(lag, prometheus.GaugeValue, seconds)
	}
}
