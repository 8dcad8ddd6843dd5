package bench

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/e2e/stack"
)

// BenchmarkBurst posts 10 000 bookings as fast as they go, from 32 clients, and waits for
// their mails, which go out over 16 connections. It prints the rates of both ends, what waited in each stage when the last
// booking was answered (the largest is the stage that limits), and each service's peak memory.
func BenchmarkBurst(b *testing.B) {
	const total, clients = 10_000, 32
	s := start(b, func(c *stack.Config) { c.Env["SMTP_CONNECTIONS"] = "16" })
	for b.Loop() {
		began := time.Now()
		var next atomic.Int64
		var done sync.WaitGroup
		for range clients {
			done.Go(func() {
				for n := next.Add(1); n <= total; n = next.Add(1) {
					if err := s.book(int(n)); err != nil {
						b.Error(err)
					}
				}
			})
		}
		done.Wait()
		posted := time.Since(began)
		s.reportStages()
		s.settled(total, 3*time.Minute)
		b.ReportMetric(total/posted.Seconds(), "bookings/s")
		b.ReportMetric(total/time.Since(began).Seconds(), "mails/s")
	}
	for _, service := range []string{"booking", "relay", "notifier", "scheduler"} {
		b.ReportMetric(s.memory(service), "MiB-"+service)
	}
	b.ReportMetric(0, "ns/op")
}

// reportStages says how many bookings wait in each stage at this moment.
func (s *system) reportStages() {
	s.b.Helper()
	conn, err := pgx.Connect(s.b.Context(), s.DatabaseURL(""))
	if err != nil {
		s.b.Fatal(err)
	}
	defer conn.Close(s.b.Context())
	var outbox, published, planned, sent float64
	err = conn.QueryRow(s.b.Context(), `
		select (select count(*) from booking.outbox_events where published_at is null),
		       (select count(*) from booking.outbox_events where published_at is not null),
		       (select count(*) from notifier.send_log where kind = 'confirm'),
		       (select count(*) from notifier.send_log where kind = 'confirm' and state = 'sent')`).Scan(&outbox, &published, &planned, &sent)
	if err != nil {
		s.b.Fatal(err)
	}
	s.b.ReportMetric(outbox, "waiting-relay")
	s.b.ReportMetric(max(0, published-planned), "waiting-planner")
	s.b.ReportMetric(planned-sent, "waiting-sender")
}
