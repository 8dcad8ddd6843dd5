package relay

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/outbox"
)

// Metrics are what a relay counts. Make them with [NewMetrics].
type Metrics struct {
	published, duplicates, refused, pauses prometheus.Counter
	paused                                 prometheus.Gauge
	transaction                            prometheus.Histogram

	total atomic.Int64 // published, to compare with
}

// NewMetrics registers a relay's metrics with to, and the backlog of table in db, which is
// read whenever they are asked for.
func NewMetrics(to prometheus.Registerer, table outbox.Table, db outbox.Querier) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &Metrics{
		published:  counter("slotwise_relay_published_total", "Events that the stream has acknowledged."),
		duplicates: counter("slotwise_relay_duplicates_total", "Published events that an earlier try had stored already."),
		refused:    counter("slotwise_relay_refused_total", "Times an event itself was refused."),
		pauses:     counter("slotwise_relay_pauses_total", "Times the relay waited because the stream or the way to it was the trouble."),
		paused:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "slotwise_relay_paused", Help: "1 while the relay pauses."}),
		transaction: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "slotwise_relay_transaction_seconds",
			Help:    "From a claim's begin to its commit, of claims that had rows.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15), // 1 ms to 16 s
		}),
	}
	to.MustRegister(m.published, m.duplicates, m.refused, m.pauses, m.paused, m.transaction, backlog{table, db})
	return m
}

func (m *Metrics) count(f fate, claimed int, took time.Duration) {
	m.published.Add(float64(len(f.published)))
	m.total.Add(int64(len(f.published)))
	m.duplicates.Add(float64(f.duplicates))
	m.refused.Add(float64(len(f.refused)))
	if claimed > 0 {
		m.transaction.Observe(took.Seconds())
	}
}

func (m *Metrics) publishedSoFar() int64 { return m.total.Load() }

// backlogTimeout bounds a scrape's look at the outbox.
const backlogTimeout = 5 * time.Second

var (
	waiting = prometheus.NewDesc("slotwise_outbox_waiting", "Events that wait to be published.", nil, nil)
	parked  = prometheus.NewDesc("slotwise_outbox_parked", "Events that were refused for too long and wait for a command.", nil, nil)
	oldest  = prometheus.NewDesc("slotwise_outbox_oldest_seconds", "Age of the oldest event that waits; 0 when none does.", nil, nil)
)

// backlog is missing from an answer while the database is away: an old figure would be a lie.
type backlog struct {
	table outbox.Table
	db    outbox.Querier
}

func (b backlog) Describe(to chan<- *prometheus.Desc) { to <- waiting; to <- parked; to <- oldest }

func (b backlog) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), backlogTimeout)
	defer cancel()
	have, err := b.table.Backlog(ctx, b.db)
	if err != nil {
		return
	}
	to <- prometheus.MustNewConstMetric(waiting, prometheus.GaugeValue, float64(have.Waiting))
	to <- prometheus.MustNewConstMetric(parked, prometheus.GaugeValue, float64(have.Parked))
	to <- prometheus.MustNewConstMetric(oldest, prometheus.GaugeValue, have.Oldest.Seconds())
}
