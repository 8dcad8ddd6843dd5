package pgdb

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

var (
	poolInUse   = prometheus.NewDesc("slotwise_postgres_pool_in_use", "Connections in use.", nil, nil)
	poolOpen    = prometheus.NewDesc("slotwise_postgres_pool_open", "Connections open.", nil, nil)
	poolMost    = prometheus.NewDesc("slotwise_postgres_pool_max", "Most connections that may be open (DATABASE_POOL).", nil, nil)
	poolWaits   = prometheus.NewDesc("slotwise_postgres_pool_waits_total", "Times somebody had to wait for a connection.", nil, nil)
	poolWaiting = prometheus.NewDesc("slotwise_postgres_pool_wait_seconds_total", "Seconds spent waiting for a connection.", nil, nil)
)

// poolMetrics reads the pool's own counts whenever it is scraped.
type poolMetrics struct{ pool *pgxpool.Pool }

func (m poolMetrics) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, to) }

func (m poolMetrics) Collect(to chan<- prometheus.Metric) {
	s := m.pool.Stat()
	to <- prometheus.MustNewConstMetric(poolInUse, prometheus.GaugeValue, float64(s.AcquiredConns()))
	to <- prometheus.MustNewConstMetric(poolOpen, prometheus.GaugeValue, float64(s.TotalConns()))
	to <- prometheus.MustNewConstMetric(poolMost, prometheus.GaugeValue, float64(s.MaxConns()))
	to <- prometheus.MustNewConstMetric(poolWaits, prometheus.CounterValue, float64(s.EmptyAcquireCount()))
	to <- prometheus.MustNewConstMetric(poolWaiting, prometheus.CounterValue, s.EmptyAcquireWaitTime().Seconds())
}
