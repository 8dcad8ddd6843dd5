package outage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slotwise/slotwise/e2e/install"
	"github.com/slotwise/slotwise/e2e/stack"
)

// system is a running Slotwise, and a customer in front of it.
type system struct {
	*stack.Stack
	t   *testing.T
	log *lines
}

// start runs a stack that ends with the test. Its log is shown when the test fails.
func start(t *testing.T, change func(*stack.Config)) *system {
	t.Helper()
	programs, err := install.Programs()
	if err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	c := stack.Config{Root: programs.Root, Bin: programs.Bin, Dir: filepath.Join(t.TempDir(), "data"), Out: log}
	change(&c)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last lines of all parts:\n%s", log.tail(300))
		}
	})
	s, err := stack.Start(t.Context(), c)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	sys := &system{Stack: s, t: t, log: log}
	sys.addHall(programs.Bin)
	return sys
}

// addHall makes the one resource that all tests book: it is never full.
func (s *system) addHall(bin string) {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "resources.yaml")
	hall := "resources:\n  - {id: hall, name: Hall, zone: Europe/Berlin, capacity: 10000, slot_minutes: 60}\n"
	if err := os.WriteFile(file, []byte(hall), 0o600); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(bin, "booking"), "resources", "apply", file) //nolint:gosec // our own
	cmd.Env = append(os.Environ(), "DATABASE_URL="+s.DatabaseURL("slotwise_booking"))
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("apply resources: %v\n%s", err, out)
	}
}

// reply is the API's answer to a request for a booking.
type reply struct {
	status     int
	retryAfter string
	booking    string // its id, when the status is 201
}

// post asks for a booking; a client that gets no answer repeats it with the same key.
func (s *system) post(ctx context.Context, key string) (reply, error) {
	body := fmt.Sprintf(`{"resource": "hall", "start": %q, "seats": 1, "name": "Ada", "address": "%s@customers.example", "locale": "en"}`,
		time.Now().Add(72*time.Hour).UTC().Truncate(time.Hour).Format(time.RFC3339), key)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.APIURL()+"/v1/bookings", strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+s.APIKey())
	request.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return reply{}, err
	}
	r := reply{status: response.StatusCode, retryAfter: response.Header.Get("Retry-After")}
	if r.status == http.StatusCreated {
		var b struct{ ID string }
		err = json.Unmarshal(content, &b)
		r.booking = b.ID
	}
	return r, err
}

// insist repeats a request, as a client should, until the booking is confirmed. It returns ""
// when the test is over, or has failed because of the answer.
func (s *system) insist(key string) string {
	s.t.Helper()
	for {
		r, err := s.post(s.t.Context(), key)
		again := r.status == http.StatusServiceUnavailable || r.status == http.StatusConflict // the first try still runs
		switch {
		case s.t.Context().Err() != nil:
			return ""
		case err == nil && r.status == http.StatusCreated:
			return r.booking
		case err == nil && (!again || r.retryAfter == ""):
			s.t.Errorf("booking %s: %+v, want 201, or 503 with Retry-After", key, r)
			return ""
		}
		pause(s.t.Context(), 100*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// book books or fails the test.
func (s *system) book(key string) string {
	s.t.Helper()
	r, err := s.post(s.t.Context(), key)
	if err != nil || r.status != http.StatusCreated {
		s.t.Fatalf("book %s: %d, %v", key, r.status, err)
	}
	return r.booking
}

// awaitMails waits until each of the bookings' confirmations was accepted by the mail server.
func (s *system) awaitMails(bookings []string, within time.Duration) {
	s.t.Helper()
	s.eventually(within, fmt.Sprintf("%d confirmations are sent", len(bookings)), func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, s.DatabaseURL(""))
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		var sent int
		err = conn.QueryRow(ctx, `
			select count(distinct booking) from notifier.send_log
			 where booking = any ($1) and kind = 'confirm' and role = 'customer' and state = 'sent'`, bookings).Scan(&sent)
		if err == nil && sent != len(bookings) {
			err = fmt.Errorf("%d so far", sent)
		}
		return err
	})
}

// probe asks a path of a service's admin port; 0 is no answer within the time.
func (s *system) probe(service, path string, within time.Duration) int {
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	defer cancel()
	status, _ := s.get(ctx, s.AdminURL(service)+path)
	return status
}

// figure reads one of the relay's metrics; an error when it is not there.
func (s *system) figure(ctx context.Context, name string) (float64, error) {
	_, body := s.get(ctx, s.AdminURL("relay")+"/metrics")
	for line := range bytes.Lines(body) {
		if value, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			return strconv.ParseFloat(string(bytes.TrimSpace(value)), 64)
		}
	}
	return 0, fmt.Errorf("the relay has no %s", name)
}

func (s *system) get(ctx context.Context, url string) (status int, body []byte) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, nil
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body) // cut off: no answer
	if err != nil {
		return 0, nil
	}
	return response.StatusCode, body
}

// eventually polls until check passes, or fails the test with its last error.
func (s *system) eventually(within time.Duration, what string, check func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			s.t.Fatalf("not within %s: %s (%v)", within, what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// lines keep what the parts print.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(bytes.TrimRight(p, "\n")))
	return len(p), nil
}

func (l *lines) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all[max(0, len(l.all)-n):], "\n")
}

// count returns how many lines of a part have these words.
func (l *lines) count(part, words string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.all {
		if strings.HasPrefix(line, part) && strings.Contains(line, words) {
			n++
		}
	}
	return n
}
