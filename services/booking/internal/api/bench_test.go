package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/services/booking/internal/api"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
	"github.com/slotwise/slotwise/services/booking/internal/store"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/seed"
	"go.uber.org/zap"
)

// POST /v1/bookings of 32 clients at once, on this machine with PostgreSQL and the clients:
// over a hundred rooms, and all into one hall, with and without an Idempotency-Key.
func BenchmarkBook(b *testing.B) {
	for _, one := range []bool{false, true} {
		for _, keyed := range []bool{false, true} {
			b.Run(fmt.Sprintf("one-hall=%t/keys=%t", one, keyed), func(b *testing.B) { bench(b, one, keyed) })
		}
	}
}

func bench(b *testing.B, one, keyed bool) {
	b.Helper()
	db := dbtest.New(b)
	config, err := pgxpool.ParseConfig(db.URL("slotwise_booking"))
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(b.Context()), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	s, err := store.New(pool)
	if err != nil {
		b.Fatal(err)
	}
	resources := make([]booking.Resource, 0, 101)
	for i := range 100 {
		resources = append(resources, booking.Resource{ID: fmt.Sprintf("room-%d", i), Name: "Room", Zone: "UTC", Capacity: 1, SlotMinutes: 60})
	}
	resources = append(resources, booking.Resource{ID: "hall", Name: "Hall", Zone: "UTC", Capacity: 10000, SlotMinutes: 60})
	if _, err := s.PutResources(b.Context(), resources); err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(api.New(app.Bookings{Store: s, Bell: silent{}}, shut(b, pool, prometheus.NewRegistry(), zap.NewNop()), zap.NewNop(), prometheus.NewRegistry()))
	b.Cleanup(server.Close)
	key := seed.Key(b, db.Admin, nil)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	var next atomic.Int64
	start := time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	b.SetParallelism(16)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			n := next.Add(1)
			resource, at := fmt.Sprintf("room-%d", n%100), start.Add(time.Duration(n/100)*time.Hour)
			if one {
				resource, at = "hall", start.Add(time.Duration(n/9000)*time.Hour)
			}
			body := fmt.Sprintf(`{"resource":%q,"start":%q,"name":"Ada Lovelace","address":"p%d@x.example","locale":"en","note":"a window seat"}`, resource, at.Format(time.RFC3339), n)
			request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, server.URL+"/v1/bookings", strings.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Authorization", "Bearer "+key)
			if keyed {
				request.Header.Set("Idempotency-Key", fmt.Sprint(n))
			}
			response, err := client.Do(request)
			if err != nil {
				b.Error(err)
				return
			}
			io.Copy(io.Discard, response.Body) //nolint:errcheck // the status is what counts
			response.Body.Close()
			if response.StatusCode != http.StatusCreated {
				b.Errorf("answered %d", response.StatusCode)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "bookings/s")
}
