package send

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	hands       *prometheus.CounterVec // by outcome
	marks       *prometheus.CounterVec // by cause
	delay       prometheus.Histogram
	connections prometheus.Gauge
	failures    *prometheus.CounterVec // by step
	account     prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		hands: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slotwise_hands_total", Help: "Hands of e-mails that have ended, by outcome.",
		}, []string{"outcome"}),
		marks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slotwise_unknown_marks_total", Help: "Hands after which nobody knows whether a mail went: each may mean a second copy.",
		}, []string{"cause"}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "slotwise_mail_delay_seconds", Help: "From the time at which a mail was due to its acceptance.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600},
		}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "slotwise_smtp_connections", Help: "Open connections to the mail server.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slotwise_smtp_open_failures_total", Help: "Connections to the mail server that could not be had, by step.",
		}, []string{"step"}),
		account: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slotwise_smtp_account_refused_total", Help: "Times the mail server refused us, and no mail: wrong password, sender or TLS.",
		}),
	}
	for _, cause := range []string{"lease", "no answer"} {
		m.marks.WithLabelValues(cause) // a counter that is not there can't be watched
	}
	registry.MustRegister(m.hands, m.marks, m.delay, m.connections, m.failures, m.account)
	return m
}
