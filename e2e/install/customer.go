package install

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Booking is what the API says of a booking.
type Booking struct {
	ID      string    `json:"id"`
	Version int64     `json:"version"`
	Status  string    `json:"status"`
	Start   time.Time `json:"start"`
}

// Request is one call of the API.
type Request struct {
	URL  string // of a copy of booking; by default the stack's own
	Path string // below /v1/bookings; a method of POST
	Body any
	Key  string // Idempotency-Key; "" sends none
	// Version that the caller has seen, for If-Match; 0 sends none.
	Version int64
}

// Answer is what came back.
type Answer struct {
	Status     int
	RetryAfter string
	Booking    Booking // with a status below 300
	Text       string  // with one above
}

// OK reports whether what was asked for is done.
func (a Answer) OK() bool { return a.Status > 0 && a.Status < 300 }

// Post makes one call. An error means that there was no answer, or none that can be read.
func (in *Installation) Post(ctx context.Context, r Request) (Answer, error) {
	content, err := json.Marshal(r.Body)
	if err != nil {
		return Answer{}, fmt.Errorf("encode: %w", err)
	}
	if r.URL == "" {
		r.URL = in.APIURL()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+"/v1/bookings"+r.Path, bytes.NewReader(content))
	if err != nil {
		return Answer{}, fmt.Errorf("ask: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	if in.Key != "" {
		request.Header.Set("Authorization", "Bearer "+in.Key)
	}
	if r.Key != "" {
		request.Header.Set("Idempotency-Key", r.Key)
	}
	if r.Version > 0 {
		request.Header.Set("If-Match", fmt.Sprintf(`"%d"`, r.Version))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return Answer{}, fmt.Errorf("ask: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return Answer{}, fmt.Errorf("read answer: %w", err)
	}
	a := Answer{Status: response.StatusCode, RetryAfter: response.Header.Get("Retry-After")}
	if !a.OK() {
		a.Text = string(text)
		return a, nil
	}
	if err := json.Unmarshal(text, &a.Booking); err != nil {
		return Answer{}, fmt.Errorf("decode answer: %w", err)
	}
	return a, nil
}

// Seat is the body of a request for one seat of a resource.
func Seat(resource, address string, start time.Time) map[string]any {
	return map[string]any{
		"resource": resource, "start": start.UTC().Format(time.RFC3339), "seats": 1,
		"name": "Ada Lovelace", "address": address, "locale": "en", "note": "",
	}
}

// InDays is the full hour n days from now.
func InDays(n int) time.Time {
	return time.Now().Add(time.Duration(n) * 24 * time.Hour).Truncate(time.Hour)
}

// Book books one seat, or fails the test.
func (in *Installation) Book(resource, address string, start time.Time) Booking {
	in.T.Helper()
	return in.must(Request{Body: Seat(resource, address, start)})
}

// Move lets a booking begin at start, or fails the test.
func (in *Installation) Move(b Booking, start time.Time) Booking {
	in.T.Helper()
	return in.must(Request{Path: "/" + b.ID + "/reschedule", Body: map[string]any{"start": start.UTC().Format(time.RFC3339)}, Version: b.Version})
}

// Cancel cancels a booking, or fails the test.
func (in *Installation) Cancel(b Booking) Booking {
	in.T.Helper()
	return in.must(Request{Path: "/" + b.ID + "/cancel", Body: map[string]any{}, Version: b.Version})
}

func (in *Installation) must(r Request) Booking {
	in.T.Helper()
	a, err := in.Post(in.T.Context(), r)
	if err != nil || !a.OK() {
		in.T.Fatalf("POST /v1/bookings%s: %+v, %v", r.Path, a, err)
	}
	return a.Booking
}

// Client is a customer who does not give up. It is for one goroutine.
type Client struct {
	in   *Installation
	urls []string
	at   int // of urls
}

// Client returns a client that asks the copies of booking at urls, the first as long as it
// answers; by default the stack's own.
func (in *Installation) Client(urls ...string) *Client {
	if len(urls) == 0 {
		urls = []string{in.APIURL()}
	}
	return &Client{in: in, urls: urls}
}

// Insist is [Client.Insist] at the stack's own booking service.
func (in *Installation) Insist(r Request) (Booking, bool) {
	in.T.Helper()
	return in.Client().Insist(r)
}

// Insist repeats a request under its key, as a client should, for as long as there is no
// answer or one that asks to come back. It reports false when the test is over, or has failed
// because of the answer.
func (c *Client) Insist(r Request) (Booking, bool) {
	t := c.in.T
	t.Helper()
	for {
		r.URL = c.urls[c.at]
		a, err := c.once(r)
		again := a.Status == http.StatusServiceUnavailable || a.Status == http.StatusConflict // the first try still runs
		switch {
		case t.Context().Err() != nil:
			return Booking{}, false
		case err != nil:
			c.at = (c.at + 1) % len(c.urls)
		case a.OK():
			return a.Booking, true
		case !again || a.RetryAfter == "":
			t.Errorf("POST /v1/bookings%s: %+v, want it done, or to be told when to come back", r.Path, a)
			return Booking{}, false
		}
		select {
		case <-t.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// patience is how long a client waits for an answer before it asks elsewhere.
const patience = 2 * time.Second

func (c *Client) once(r Request) (Answer, error) {
	ctx, cancel := context.WithTimeout(c.in.T.Context(), patience)
	defer cancel()
	return c.in.Post(ctx, r)
}
