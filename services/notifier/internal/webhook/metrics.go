package webhook

import (
	"context"
	_ "embed"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

//go:embed gauge.sql
var gaugeSQL string

// mostLabels is how many endpoints have a name of their own in the metrics of a process.
const mostLabels = 100

// other is the label of all endpoints beyond those.
const other = "other"

// labels bounds the values of the label endpoint: the first hundred endpoints by id.
type labels struct {
	mu    sync.Mutex
	known map[string]bool
}

// learn reads the first endpoints by id. What has a label keeps it: a counter that is gone can't
// be watched.
func (l *labels) learn(ctx context.Context, pool *pgxpool.Pool) error {
	rows, _ := pool.Query(ctx, `select id from notifier.endpoints where deleted_at is null order by id limit $1`, mostLabels) // the collector reports this error too
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list endpoints: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]bool{}
	}
	for _, id := range ids {
		if len(l.known) < mostLabels {
			l.known[id] = true
		}
	}
	return nil
}

// of is the label of an endpoint.
func (l *labels) of(endpoint string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[endpoint] {
		return endpoint
	}
	return other
}

type metrics struct {
	labels   labels
	tries    *prometheus.CounterVec // by endpoint and outcome
	failures *prometheus.CounterVec // by endpoint and kind
	marks    *prometheus.CounterVec // by cause
	disabled prometheus.Counter
	delay    prometheus.Histogram
	took     prometheus.Histogram
}

func newMetrics(s *Sender, registry prometheus.Registerer) *metrics {
	m := &metrics{
		tries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slotwise_webhook_tries_total", Help: "Tries of webhooks that have ended, by endpoint (the first hundred; the rest is other) and outcome.",
		}, []string{"endpoint", "outcome"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slotwise_webhook_failures_total", Help: "Tries of webhooks without a 2xx, by endpoint and kind; internal is our own fault.",
		}, []string{"endpoint", "kind"}),
		marks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slotwise_webhook_unknown_marks_total", Help: "Tries of webhooks that ended by our own fault after they may have arrived: each may mean a second copy.",
		}, []string{"cause"}),
		disabled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slotwise_webhook_endpoints_disabled_total", Help: "Endpoints that were disabled because they only failed, or answered 410.",
		}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slotwise_webhook_delay_seconds", Help: "From the time at which a try was due to its 2xx.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600},
		}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slotwise_webhook_try_seconds", Help: "One try of a webhook: look-up, connection, request and answer.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15},
		}),
	}
	for _, cause := range []string{"lease", "cut off"} {
		m.marks.WithLabelValues(cause) // a counter that is not there can't be watched
	}
	for _, k := range kinds {
		m.failures.WithLabelValues(other, string(k))
	}
	registry.MustRegister(m.tries, m.failures, m.marks, m.disabled, m.delay, m.took, &gauges{s})
	return m
}

var (
	waiting = prometheus.NewDesc("slotwise_webhooks_waiting", "Webhooks that are planned or unknown, by endpoint (the first hundred; the rest is other).", []string{"endpoint"}, nil)
	held    = prometheus.NewDesc("slotwise_webhooks_held", "Webhooks that are held, by endpoint.", []string{"endpoint"}, nil)
	flying  = prometheus.NewDesc("slotwise_webhooks_in_hand", "Webhooks in hand of this process.", nil, nil)
)

// gauges reads the backlog whenever it is scraped, and leaves it out while PostgreSQL is away.
type gauges struct{ s *Sender }

// Describe names the gauges.
func (g *gauges) Describe(to chan<- *prometheus.Desc) {
	to <- waiting
	to <- held
	to <- flying
}

// Collect reads the backlog, within five seconds or not at all.
func (g *gauges) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(flying, prometheus.GaugeValue, float64(g.s.inHand.Load()))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	rows, _ := g.s.pool.Query(ctx, gaugeSQL) // the collector reports this error too
	counts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
		Endpoint      string
		Waiting, Held int64
	}])
	if err != nil {
		return // the pool's readiness tells
	}
	sums := map[string][2]int64{other: {}}
	for _, c := range counts {
		label := g.s.metrics.labels.of(c.Endpoint)
		sum := sums[label]
		sums[label] = [2]int64{sum[0] + c.Waiting, sum[1] + c.Held}
	}
	for label, sum := range sums {
		to <- prometheus.MustNewConstMetric(waiting, prometheus.GaugeValue, float64(sum[0]), label)
		to <- prometheus.MustNewConstMetric(held, prometheus.GaugeValue, float64(sum[1]), label)
	}
}
