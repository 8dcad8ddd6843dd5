package sendlog

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

//go:embed gauge.sql
var gaugeSQL string

// Backlog is what is not closed, at the cost of those rows alone.
type Backlog struct {
	States map[State]int64 // planned, unknown, handed, held, refused

	// Overdue rows are planned, unknown or handed, past due by [Times.Overdue], and neither
	// behind a quiet time, nor a switch, nor their endpoint. OverdueLate are those past due by [Times.Late].
	Overdue, OverdueLate int64
}

// Backlog counts what is not closed.
func (l *Log) Backlog(ctx context.Context) (Backlog, error) {
	rows, _ := l.pool.Query(ctx, gaugeSQL, l.times.Overdue, l.times.Late) // the collector reports this error too
	counts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
		State            State
		N, Overdue, Late int64
	}])
	if err != nil {
		return Backlog{}, fmt.Errorf("count messages: %w", err)
	}
	b := Backlog{States: map[State]int64{Planned: 0, Unknown: 0, Handed: 0, Held: 0, Refused: 0}}
	for _, c := range counts {
		b.States[c.State] = c.N
		b.Overdue += c.Overdue
		b.OverdueLate += c.Late
	}
	return b, nil
}

// Metrics reads the backlog whenever it is scraped, and leaves it out while PostgreSQL is
// away. While paced reports that the backlog is being sent at SEND_RATE, what waits for its
// turn there is not overdue.
func (l *Log) Metrics(paced func() bool) prometheus.Collector {
	return &metrics{l, paced}
}

var (
	messages = prometheus.NewDesc("slotwise_messages", "Messages that are not closed, and those that were refused, by state.", []string{"state"}, nil)
	overdue  = prometheus.NewDesc("slotwise_messages_overdue",
		"Messages past due by five minutes, not behind a quiet time, a switch or the pace. Held ones are not among them.", nil, nil)
)

type metrics struct {
	log   *Log
	paced func() bool
}

// Describe names the gauges.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	to <- messages
	to <- overdue
}

// Collect reads the backlog, within five seconds or not at all.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	b, err := m.log.Backlog(ctx)
	if err != nil {
		return // the pool's readiness tells
	}
	for state, n := range b.States {
		to <- prometheus.MustNewConstMetric(messages, prometheus.GaugeValue, float64(n), string(state))
	}
	if m.paced() {
		b.Overdue -= b.OverdueLate
	}
	to <- prometheus.MustNewConstMetric(overdue, prometheus.GaugeValue, float64(b.Overdue))
}
