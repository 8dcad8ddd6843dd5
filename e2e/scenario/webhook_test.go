package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/e2e/install"
	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/testkit/checkout"
	"github.com/slotwise/slotwise/testkit/hooktest"
)

// writes are the operations of the API's description that change a booking.
func writes(t *testing.T) (operations []string) {
	t.Helper()
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "services", "booking", "internal", "api", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	path, form := "", regexp.MustCompile(`^(  (/\S*):|    (post|put|patch|delete):)$`)
	for line := range strings.Lines(string(text)) {
		match := form.FindStringSubmatch(strings.TrimRight(line, "\n"))
		switch {
		case match == nil:
		case match[2] != "":
			path = match[2]
		default:
			operations = append(operations, strings.ToUpper(match[3])+" "+path)
		}
	}
	return operations
}

// B124: whichever way a booking is written, its event goes to the endpoint: signed, each version once, and
// the same as in the outbox, byte for byte. A way that the API's description has and this list has not fails.
func TestB124EveryWritePathFiresAWebhook(t *testing.T) {
	t.Parallel()
	const ada = "ada@customer.example"
	hooks := hooktest.New(t, hooktest.Options{TLS: true})
	in := install.Start(t, func(c *stack.Config) {
		c.Env["WEBHOOK_ALLOW"], c.Env["WEBHOOK_CA_FILE"] = "127.0.0.0/8", hooks.CAFile()
	})
	var secret string
	err := in.DB.Admin.QueryRow(t.Context(), `select secret from notifier.create_endpoint($1, 'anna')`,
		fmt.Sprintf(`{"url": %q, "owner": "anna@teams.example"}`, hooks.URL("/hooks"))).Scan(&secret)
	if err != nil {
		t.Fatal(err)
	}

	var b install.Booking
	var link string
	paths := []struct {
		operation, fires string
		write            func()
	}{
		{"POST /v1/bookings", "booking.v1.confirmed v1", func() {
			b = in.Book("room", ada, install.InDays(3))
			link = links(t, await(in, ada, 1, 20*time.Second)[0])[0]
		}},
		{"PATCH /v1/bookings/{id}", "booking.v1.changed v2", func() {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, in.APIURL()+"/v1/bookings/"+b.ID, strings.NewReader(`{"note":"a projector"}`))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Authorization", "Bearer "+in.Key)
			request.Header.Set("If-Match", `"1"`)
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if err := json.NewDecoder(answer.Body).Decode(&b); err != nil || b.Version != 2 {
				t.Fatalf("PATCH: %d, %+v, %v", answer.StatusCode, b, err)
			}
		}},
		{"POST /v1/bookings/{id}/reschedule", "booking.v1.rescheduled v3", func() { b = in.Move(b, install.InDays(4)) }},
		{"POST /b/{token}/move", "booking.v1.rescheduled v4", func() {
			start := install.InDays(5).Format(time.DateOnly) + "T12:00"
			if status, body := visit(t, http.MethodPost, link+"/move", url.Values{"version": {"3"}, "start": {start}}); status != http.StatusOK {
				t.Fatalf("moved by the link: %d %s", status, body)
			}
		}},
		{"POST /b/{token}/cancel", "booking.v1.cancelled v5", func() {
			if status, body := visit(t, http.MethodPost, link+"/cancel", url.Values{"version": {"4"}}); status != http.StatusOK {
				t.Fatalf("cancelled by the link: %d %s", status, body)
			}
		}},
		{"POST /v1/bookings", "booking.v1.confirmed v1", func() { b = in.Book("hall", "bob@customer.example", install.InDays(3)) }},
		{"POST /v1/bookings/{id}/cancel", "booking.v1.cancelled v2", func() { in.Cancel(b) }},
	}
	var covered, want []string
	for _, p := range paths {
		p.write()
		covered, want = append(covered, p.operation), append(want, p.fires)
	}
	for _, operation := range writes(t) {
		if !slices.Contains(covered, operation) {
			t.Errorf("%s fires a webhook, or not: this list does not say", operation)
		}
	}

	hooks.Wait(len(paths), 30*time.Second)
	in.Eventually(10*time.Second, "all webhooks are sent", func(context.Context) error {
		if n := in.Count(`select count(*) from notifier.send_log where channel = 'webhook' and state <> 'sent'`); n != 0 {
			return fmt.Errorf("%d are not", n)
		}
		return nil
	})
	var got []string
	for _, r := range hooks.Requests() {
		e, err := event.Decode(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s v%d", e.Type, e.Data.Version))
		if err := r.Verify(secret); err != nil {
			t.Error(err)
		}
		if n := in.Count(`select count(*) from booking.outbox_events where message_id = $1 and payload = $2`, e.ID, r.Body); n != 1 {
			t.Errorf("%s is not what stands in the outbox", e.ID)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("webhooks: %v, want %v", got, want)
	}
}
