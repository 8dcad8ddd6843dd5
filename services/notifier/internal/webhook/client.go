package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

// What a delivery says beside the signature.
const (
	contentType = "application/cloudevents+json" // CloudEvents HTTP binding 1.0, structured mode (§3.2)
	userAgent   = "Slotwise-Webhooks/1"
	handHeader  = "Slotwise-Hand" // two tries of one delivery can be told apart by it, as mails can
)

// maxBody is the largest event that is sent: what Standard Webhooks advises (20 kB).
const maxBody = 20_000

// Of an answer's body so much is kept, and so much more read to save the connection.
const (
	keptBody  = 1024
	drainBody = 16 << 10
)

// client makes the tries.
type client struct {
	rules     Rules
	timeout   time.Duration
	transport *http.Transport
}

func newClient(s Settings, t Times, resolver *net.Resolver) *client {
	direct := dialer{rules: s.Rules, resolver: resolver, each: t.Dial}
	transport := &http.Transport{
		DialContext: direct.dial,
		Proxy:       nil, // the environment's proxies are not for us
		TLSClientConfig: &tls.Config{
			RootCAs: s.CAs, MinVersion: tls.VersionTLS12,
			ClientSessionCache: tls.NewLRUClientSessionCache(s.Connections), // a connection made again costs less
		},
		TLSHandshakeTimeout: t.Timeout,
		ForceAttemptHTTP2:   true, // a dialer of our own would turn it off
		// A connection on which nothing comes back is left before the next tries end on it too.
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: t.Timeout / 3, PingTimeout: t.Timeout / 3},
		DisableCompression:     true, // an answer of 1 KiB must not unfold
		MaxResponseHeaderBytes: 16 << 10,
		MaxIdleConns:           s.Connections,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        t.KeepAlive,
	}
	if s.Proxy != nil {
		transport.Proxy = http.ProxyURL(s.Proxy)
		transport.DialContext = proxyDialer(t.Dial)
		transport.OnProxyConnectResponse = proxyAnswer
	}
	return &client{rules: s.Rules, timeout: t.Timeout, transport: transport}
}

// errProxy says that the proxy could not be had: our fault, and no endpoint's.
var errProxy = errors.New("the proxy can't be reached or refuses us")

// proxyDialer connects to the proxy, which the operator has named and may be anywhere.
func proxyDialer(each time.Duration) func(context.Context, string, string) (net.Conn, error) {
	dial := net.Dialer{Timeout: each}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial.DialContext(ctx, network, address)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errProxy, err)
		}
		return conn, nil
	}
}

func proxyAnswer(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusProxyAuthRequired {
		return errProxy
	}
	return nil
}

// request makes the request of a try at now. Its body is the event's bytes, the same on every
// try; id, body and endpoint never change, timestamp and hand do.
func (h Hand) request(ctx context.Context, rules Rules, now time.Time) (*http.Request, error) {
	u, err := parseURL(h.URL, rules)
	if err != nil {
		return nil, err
	}
	signatures, err := sign(h.Secrets, h.ID(), now.Unix(), h.Facts.Event)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(h.Facts.Event))
	if err != nil {
		return nil, &URLError{"it can't be asked"}
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("User-Agent", userAgent)
	r.Header.Set("Webhook-Id", h.ID())
	r.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	r.Header.Set("Webhook-Signature", signatures)
	r.Header.Set(handHeader, h.Token)
	return r, nil
}

// try makes one try. When ctx ends, it is cut off: see [cut].
func (c *client) try(ctx context.Context, h Hand) ending {
	if n := len(h.Facts.Event); n == 0 || n > maxBody {
		return ending{outcome: unsendable, kind: kindInternal, words: fmt.Sprintf("the event has %d bytes, wanted 1 to %d", n, maxBody)}
	}
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var wrote atomic.Bool
	traced := httptrace.WithClientTrace(limited, &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }})
	r, err := h.request(traced, c.rules, time.Now())
	switch {
	case errors.Is(err, errSecret):
		return ending{outcome: unsendable, kind: kindInternal, words: err.Error()}
	case err != nil:
		return ending{outcome: failed, kind: kindForbidden, words: err.Error()}
	}
	answer, err := c.transport.RoundTrip(r) // not a client's Do: it would follow redirects
	if err != nil {
		return broken(ctx, err, wrote.Load(), c.timeout)
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, keptBody)) // the status is the answer; of the body, what there is
	if len(body) == keptBody {
		_, _ = io.CopyN(io.Discard, answer.Body, drainBody) // a longer one costs its connection
	}
	return answered(answer.StatusCode, answer.Header, body, time.Now())
}

// close closes the connections that are kept.
func (c *client) close() { c.transport.CloseIdleConnections() }
