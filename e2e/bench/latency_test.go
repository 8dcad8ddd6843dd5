package bench

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// BenchmarkLatency books 50 times a second for 20 s and measures from the commit to the
// moment at which the send log has the confirmation as accepted. The commit is taken to be
// when the outbox row was written, and the result is written after the server's answer: both
// make the figures upper bounds.
func BenchmarkLatency(b *testing.B) {
	const rate, total = 50, 1000
	s := start(b)
	for n := range 20 { // connections, caches, plans
		if err := s.book(total + n); err != nil {
			b.Fatal(err)
		}
	}
	s.settled(20, time.Minute)

	for b.Loop() {
		clock := time.NewTicker(time.Second / rate)
		var posted sync.WaitGroup
		for n := range total {
			<-clock.C
			posted.Go(func() {
				if err := s.book(n); err != nil {
					b.Error(err)
				}
			})
		}
		clock.Stop()
		posted.Wait()
		s.settled(20+total, time.Minute)
	}
	steps := s.steps()
	all := steps[len(steps)-1]
	b.ReportMetric(milliseconds(percentile(all.took, 0.50)), "ms-p50")
	b.ReportMetric(milliseconds(percentile(all.took, 0.99)), "ms-p99")
	for _, step := range steps[:len(steps)-1] {
		b.ReportMetric(milliseconds(percentile(step.took, 0.50)), "ms-p50-"+step.name)
	}
	b.ReportMetric(0, "ns/op")
}

// settled waits until n mails have been accepted.
func (s *system) settled(n int, within time.Duration) {
	s.b.Helper()
	for end := time.Now().Add(within); s.mail.Counts().Accepted < n; time.Sleep(5 * time.Millisecond) { //nolint:forbidigo // polls a condition
		if time.Now().After(end) {
			s.b.Fatalf("%d of %d mails within %v", s.mail.Counts().Accepted, n, within)
		}
	}
}

// step is a part of the way of a confirmation, and what it took.
type step struct {
	name string
	took []time.Duration
}

// latencies are the times from outbox row to acceptance, of the confirmations of this run.
func (s *system) latencies() []time.Duration {
	s.b.Helper()
	steps := s.steps()
	return steps[len(steps)-1].took
}

// steps are the times of the confirmations of this run, step by step, and the whole last.
// The stream has an event before it is marked as published, so that this step's end is not seen.
func (s *system) steps() []step {
	s.b.Helper()
	conn, err := pgx.Connect(s.b.Context(), s.DatabaseURL(""))
	if err != nil {
		s.b.Fatal(err)
	}
	defer conn.Close(s.b.Context())
	rows, err := conn.Query(s.b.Context(), `
		select s.created_at - o.created_at, s.handed_at - s.created_at, s.accepted_at - s.handed_at, s.accepted_at - o.created_at
		from notifier.send_log s
		join booking.outbox_events o on o.key = s.booking::text
		where s.kind = 'confirm' and s.state = 'sent'
		order by o.id
		offset 20`)
	if err != nil {
		s.b.Fatal(err)
	}
	defer rows.Close()
	steps := []step{{name: "planned"}, {name: "handed"}, {name: "sent"}, {name: "all"}}
	for rows.Next() {
		took := make([]time.Duration, len(steps))
		if err := rows.Scan(&took[0], &took[1], &took[2], &took[3]); err != nil {
			s.b.Fatal(err)
		}
		for i := range steps {
			steps[i].took = append(steps[i].took, took[i])
		}
	}
	if err := rows.Err(); err != nil {
		s.b.Fatal(err)
	}
	return steps
}
