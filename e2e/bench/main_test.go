// Package bench measures the whole, as it ships: the real programs without the race detector,
// real PostgreSQL and nats-server on disk, an SMTP server that takes everything. `make bench`
// prints the figures of docs/benchmarks.md. Machines are noisy: quote ratios and medians.
package bench

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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/testkit/checkout"
	"github.com/slotwise/slotwise/testkit/mailtest"
)

// system is a stack under measurement.
type system struct {
	*stack.Stack
	b    *testing.B
	bin  string
	mail *mailtest.Server
	http *http.Client
}

// start runs a stack with data on disk, changed by the given functions.
func start(b *testing.B, change ...func(*stack.Config)) *system {
	b.Helper()
	root, err := checkout.Root()
	if err != nil {
		b.Fatal(err)
	}
	bin := filepath.Join(root, "bin")
	if err := stack.Build(b.Context(), root, bin, os.Stderr); err != nil {
		b.Fatal(err)
	}
	mail := mailtest.New(b, mailtest.Options{NoOp: true})
	c := stack.Config{
		Root: root, Bin: bin, Dir: b.TempDir(), Out: io.Discard, Sync: true, SMTPURL: mail.URL(),
		Env: map[string]string{"SMTP_CA_FILE": mail.CAFile(), "MAIL_FROM": "Slotwise <bookings@slotwise.example>", "LOG_LEVEL": "warn", "RATE_PER_CLIENT": "0"},
	}
	for _, f := range change {
		f(&c)
	}
	s, err := stack.Start(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), 20*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			b.Errorf("stop: %v", err)
		}
	})
	sys := &system{Stack: s, b: b, bin: bin, mail: mail, http: &http.Client{
		Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64},
	}}
	sys.resources()
	return sys
}

// resources makes a hundred halls that nothing can fill.
func (s *system) resources() {
	s.b.Helper()
	var text strings.Builder
	text.WriteString("resources:\n")
	for i := range 100 {
		fmt.Fprintf(&text, "  - {id: hall-%d, name: Hall %d, zone: Europe/Berlin, capacity: 10000, slot_minutes: 60}\n", i, i)
	}
	file := filepath.Join(s.b.TempDir(), "resources.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		s.b.Fatal(err)
	}
	cmd := exec.CommandContext(s.b.Context(), filepath.Join(s.bin, "booking"), "resources", "apply", file) //nolint:gosec // our own
	cmd.Env = append(os.Environ(), "DATABASE_URL="+s.DatabaseURL("slotwise_booking"))
	if out, err := cmd.CombinedOutput(); err != nil {
		s.b.Fatalf("apply resources: %v\n%s", err, out)
	}
}

// book posts booking number n and returns when it was answered.
func (s *system) book(n int) error {
	body, err := json.Marshal(map[string]any{
		"resource": fmt.Sprintf("hall-%d", n%100),
		"start":    time.Now().Add(time.Duration(72+n%2000) * time.Hour).UTC().Truncate(time.Hour).Format(time.RFC3339),
		"seats":    1, "name": "Ada Lovelace", "address": fmt.Sprintf("ada%d@customer.example", n), "locale": "en", "note": "",
	})
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	request, err := http.NewRequestWithContext(s.b.Context(), http.MethodPost, s.APIURL()+"/v1/bookings", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+s.APIKey())
	response, err := s.http.Do(request)
	if err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode != http.StatusCreated {
		return fmt.Errorf("booking %d: %d %s", n, response.StatusCode, answer)
	}
	return nil
}

// memory is the most that a part has had resident, in MiB.
func (s *system) memory(part string) float64 {
	s.b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Part(part).PID()))
	if err != nil {
		s.b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kib); n == 1 {
			return kib / 1024
		}
	}
	s.b.Fatalf("%s: no peak in its status", part)
	return 0
}

// percentile returns the value below which p of the sorted values lie.
func percentile(values []time.Duration, p float64) time.Duration {
	slices.Sort(values)
	return values[min(len(values)-1, int(p*float64(len(values))))]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
