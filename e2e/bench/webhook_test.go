package bench

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/testkit/hooktest"
)

// BenchmarkWebhooks books 50 times a second for 10 s, twice, with a webhook for each booking to an endpoint
// that answers at once: alone, and while another endpoint hangs with 10 000 rows. It prints, for each, the p99
// of the webhooks (from the event's time to the request), the mails (as BenchmarkLatency) and
// POST /v1/bookings; goal: the first within twice, the others not changed. Then it prints how fast 5 000 rows
// for one endpoint of concurrency 64 are delivered.
func BenchmarkWebhooks(b *testing.B) {
	const rate, total, hanging, backlog = 50, 500, 10_000, 5_000
	hooks := hooktest.New(b, hooktest.Options{TLS: true})
	hooks.Script(hooktest.Fault{Path: "/hangs", Silent: true})
	s := start(b, func(c *stack.Config) {
		c.Env["WEBHOOK_ALLOW"], c.Env["WEBHOOK_CA_FILE"] = "127.0.0.0/8", hooks.CAFile()
	})
	conn, err := pgx.Connect(b.Context(), s.DatabaseURL(""))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(b.Context()))
	endpoint := func(settings string) (id string) {
		if err := conn.QueryRow(b.Context(), `select id from notifier.create_endpoint($1, 'bench')`, settings).Scan(&id); err != nil {
			b.Fatal(err)
		}
		return id
	}
	fill := func(endpoint string, rows int) {
		_, err := conn.Exec(b.Context(), `
			insert into notifier.send_log (key, channel, kind, version, endpoint, urgency, state, due_at, payload)
			select 'webhook-' || $1 || '-' || n, 'webhook', 'webhook', 1, $1, 0, 'planned', now(), '{"event": "e30="}' from generate_series(1, $2::integer) n`, endpoint, rows)
		if err != nil {
			b.Fatal(err)
		}
	}
	endpoint(`{"url": "` + hooks.URL("/good") + `", "owner": "anna@teams.example"}`)
	seen, mails := 0, 0
	measure := func(name string, bookings int) {
		posts := make([]time.Duration, bookings)
		clock := time.NewTicker(time.Second / rate)
		defer clock.Stop()
		var posted sync.WaitGroup
		for n := range bookings {
			<-clock.C
			posted.Go(func() {
				began := time.Now()
				if err := s.book(n); err != nil {
					b.Error(err)
				}
				posts[n] = time.Since(began)
			})
		}
		posted.Wait()
		mails += bookings
		s.settled(mails, time.Minute)
		for end := time.Now().Add(time.Minute); hooks.Count("/good") < mails; time.Sleep(5 * time.Millisecond) { //nolint:forbidigo // polls a condition
			if time.Now().After(end) {
				b.Fatalf("%d of %d webhooks", hooks.Count("/good"), mails)
			}
		}
		if name == "" {
			seen = len(hooks.Requests())
			return
		}
		var webhooks []time.Duration
		for _, r := range hooks.Requests()[seen:] {
			var event struct{ Time time.Time }
			if r.Path == "/good" && json.Unmarshal(r.Body, &event) == nil {
				webhooks = append(webhooks, r.At.Sub(event.Time))
			}
		}
		seen = len(hooks.Requests())
		latencies := s.latencies()
		latencies = latencies[len(latencies)-bookings:]
		b.ReportMetric(milliseconds(percentile(webhooks, 0.99)), "ms-webhook-p99-"+name)
		b.ReportMetric(milliseconds(percentile(webhooks, 0.50)), "ms-webhook-p50-"+name)
		b.ReportMetric(milliseconds(percentile(latencies, 0.99)), "ms-mail-p99-"+name)
		b.ReportMetric(milliseconds(percentile(posts, 0.99)), "ms-post-p99-"+name)
	}
	for b.Loop() {
		measure("", 30) // connections, caches, plans
		measure("alone", total)
		hang := endpoint(`{"url": "` + hooks.URL("/hangs") + `", "owner": "anna@teams.example", "resources": ["none"]}`)
		fill(hang, hanging)
		for hooks.Count("/hangs") < 4 {
			time.Sleep(5 * time.Millisecond) //nolint:forbidigo // polls a condition
		}
		measure("beside", total)

		many := endpoint(`{"url": "` + hooks.URL("/many") + `", "owner": "anna@teams.example", "resources": ["none"], "concurrency": 64}`)
		fill(many, backlog)
		began := time.Now()
		for hooks.Count("/many") < backlog && time.Since(began) < time.Minute {
			time.Sleep(time.Millisecond) //nolint:forbidigo // polls a condition
		}
		b.ReportMetric(float64(hooks.Count("/many"))/time.Since(began).Seconds(), "webhooks/s")
	}
	b.ReportMetric(s.memory("notifier"), "MiB-notifier")
	b.ReportMetric(0, "ns/op")
}
