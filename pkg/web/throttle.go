package web

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/config"
)

// ReadRate reads RATE_PER_CLIENT: how many requests of one client are answered each second, on
// average; twice as many at once.
func ReadRate(env *config.Reader) *Limiter {
	perSecond := env.Int("RATE_PER_CLIENT", 500, 0, 1_000_000, "requests a second from one client address, on average; twice as many at once; 0: any number")
	return NewLimiter(float64(perSecond), 2*perSecond)
}

// Throttle refuses requests of a client that asks too often.
type Throttle struct {
	Clients Clients
	Limiter *Limiter // nil: nothing is limited
	Refused Refused
}

// Check returns the problem that the request is answered with; nil when it may go on.
func (t Throttle) Check(r *http.Request) *Problem {
	if t.Limiter == nil {
		return nil
	}
	wait, ok := t.Limiter.Take(t.Clients.Addr(r), time.Now())
	if ok {
		return nil
	}
	t.Refused.Count("client-rate")
	return TooMany(wait, "too many requests from this address")
}

// TooMany is 429 (RFC 6585 §4) with the time after which to come again, in whole seconds.
func TooMany(wait time.Duration, detail string) *Problem {
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	return &Problem{
		Type: "/problems/too-many-requests", Status: http.StatusTooManyRequests, Detail: detail,
		Header: map[string]string{"Retry-After": strconv.Itoa(seconds)},
	}
}

// Refused counts requests that were refused before anybody looked at what they ask for. The
// zero value counts nothing.
type Refused struct{ count *prometheus.CounterVec }

// NewRefused registers the count; reasons are all that will be counted, besides those of
// [Throttle].
func NewRefused(registry prometheus.Registerer, reasons ...string) Refused {
	count := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slotwise_http_refused_total", Help: "Requests refused because of who asks, or how often.",
	}, []string{"reason"})
	for _, reason := range append(reasons, "client-rate") {
		count.WithLabelValues(reason) // a counter that is not there can't be watched
	}
	registry.MustRegister(count)
	return Refused{count}
}

// Count counts one for a reason, which must be one of few.
func (r Refused) Count(reason string) {
	if r.count != nil {
		r.count.WithLabelValues(reason).Inc()
	}
}
