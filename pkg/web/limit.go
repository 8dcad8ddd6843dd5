package web

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// mostClients is how many clients a limiter remembers, twice: about 100 bytes each.
const mostClients = 16384

// Limiter is a rate for each client: a bucket that holds a burst and fills by itself. Clients
// in one IPv6 network of 64 bits share a bucket: that is what one customer of a provider gets
// (RFC 6177 §2). It remembers so many clients and forgets the oldest first: who is forgotten
// has a full bucket again.
type Limiter struct {
	rate  rate.Limit
	burst int

	mu         sync.Mutex
	young, old map[netip.Addr]*rate.Limiter
}

// NewLimiter returns a limiter of perSecond requests on average, and burst at once. With
// perSecond 0 nothing is limited.
func NewLimiter(perSecond float64, burst int) *Limiter {
	return &Limiter{rate: rate.Limit(perSecond), burst: burst, young: map[netip.Addr]*rate.Limiter{}}
}

// Take takes one from the client's bucket, or says after how long there will be one.
func (l *Limiter) Take(client netip.Addr, now time.Time) (wait time.Duration, ok bool) {
	if l.rate <= 0 {
		return 0, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket := l.bucket(network(client))
	if bucket.AllowN(now, 1) {
		return 0, true
	}
	missing := 1 - bucket.TokensAt(now)
	return time.Duration(missing / float64(l.rate) * float64(time.Second)), false
}

// bucket is called with the lock held. Two maps take turns: when the young one is full it
// becomes the old one, and what nobody has asked for since is gone.
func (l *Limiter) bucket(client netip.Addr) *rate.Limiter {
	if known := l.young[client]; known != nil {
		return known
	}
	bucket := l.old[client]
	if bucket == nil {
		bucket = rate.NewLimiter(l.rate, l.burst)
	}
	if len(l.young) >= mostClients {
		l.young, l.old = make(map[netip.Addr]*rate.Limiter), l.young
	}
	l.young[client] = bucket
	return bucket
}

func network(client netip.Addr) netip.Addr {
	if !client.Is6() {
		return client
	}
	prefix, err := client.Prefix(64)
	if err != nil {
		return client
	}
	return prefix.Addr()
}
