package web

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count requests and the seconds until they were answered.
type Metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// NewMetrics returns metrics that count in registry.
func NewMetrics(registry prometheus.Registerer) Metrics {
	m := Metrics{
		prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slotwise_http_requests_total", Help: "Requests answered.",
		}, []string{"route", "status"}),
		prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "slotwise_http_request_seconds", Help: "Seconds until the answer was written.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route"}),
	}
	registry.MustRegister(m.requests, m.seconds)
	return m
}

// Count counts an answer. The route is the pattern, so that labels are bounded.
func (m Metrics) Count(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}
