package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/testkit/dbtest"
)

// installation is a running stack with the means to use it as a customer would.
type installation struct {
	*stack.Stack
	t   *testing.T
	db  *dbtest.DB
	dir string // of its data
	log *logFile
}

// resources applies the example file, and a big room for load.
func (in *installation) resources() {
	in.t.Helper()
	file := filepath.Join(in.t.TempDir(), "resources.yaml")
	text := `resources:
  - {id: room, name: Room, zone: Europe/Berlin, capacity: 1, slot_minutes: 60, host_address: host@slotwise.example}
  - {id: hall, name: Hall, zone: Europe/Berlin, capacity: 10000, slot_minutes: 60}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		in.t.Fatal(err)
	}
	cmd := exec.CommandContext(in.t.Context(), filepath.Join(built.bin, "booking"), "resources", "apply", file) //nolint:gosec // our own
	cmd.Env = append(os.Environ(), "DATABASE_URL="+in.DatabaseURL("slotwise_booking"))
	if out, err := cmd.CombinedOutput(); err != nil {
		in.t.Fatalf("apply resources: %v\n%s", err, out)
	}
}

// answer is what the API says of a booking.
type answer struct {
	ID      string    `json:"id"`
	Version int64     `json:"version"`
	Status  string    `json:"status"`
	Start   time.Time `json:"start"`
}

// call sends body as JSON and reads the answer; headers are pairs.
func (in *installation) call(method, path string, body any, headers ...string) (int, answer, error) {
	content, err := json.Marshal(body)
	if err != nil {
		return 0, answer{}, fmt.Errorf("encode: %w", err)
	}
	request, err := http.NewRequestWithContext(in.t.Context(), method, in.APIURL()+path, bytes.NewReader(content))
	if err != nil {
		return 0, answer{}, fmt.Errorf("ask: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, answer{}, fmt.Errorf("ask: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	all, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, answer{}, fmt.Errorf("read answer: %w", err)
	}
	var a answer
	if response.StatusCode < 300 {
		if err := json.Unmarshal(all, &a); err != nil {
			return 0, answer{}, fmt.Errorf("decode answer: %w", err)
		}
		return response.StatusCode, a, nil
	}
	return response.StatusCode, a, fmt.Errorf("%s %s: %d %s", method, path, response.StatusCode, all)
}

// book books seats of resource for address, or fails the test.
func (in *installation) book(resource, address string, start time.Time) answer {
	in.t.Helper()
	_, a, err := in.call(http.MethodPost, "/v1/bookings", booking(resource, address, start))
	if err != nil {
		in.t.Fatal(err)
	}
	return a
}

func booking(resource, address string, start time.Time) map[string]any {
	return map[string]any{
		"resource": resource, "start": start.UTC().Format(time.RFC3339), "seats": 1,
		"name": "Ada Lovelace", "address": address, "locale": "en", "note": "",
	}
}

// change asks for a change of the booking as it stands in a.
func (in *installation) change(a answer, method, path string, body any) answer {
	in.t.Helper()
	_, next, err := in.call(method, "/v1/bookings/"+a.ID+path, body, "If-Match", fmt.Sprintf("%q", fmt.Sprint(a.Version)))
	if err != nil {
		in.t.Fatal(err)
	}
	return next
}

// letter is a mail as it lies in the inbox.
type letter struct {
	*mail.Message
	Text string
}

// letters reads all mails in the inbox, the oldest first, by Mailpit's API.
func (in *installation) letters() ([]letter, error) {
	var page struct {
		Messages []struct{ ID string } `json:"messages"`
	}
	body, err := in.get(in.InboxURL() + "/api/v1/messages?limit=10000")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, fmt.Errorf("decode inbox: %w", err)
	}
	all := make([]letter, 0, len(page.Messages))
	for i := len(page.Messages) - 1; i >= 0; i-- {
		raw, err := in.get(in.InboxURL() + "/api/v1/message/" + page.Messages[i].ID + "/raw")
		if err != nil {
			return nil, err
		}
		m, err := mail.ReadMessage(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("read mail: %w", err)
		}
		all = append(all, letter{m, string(raw)})
	}
	return all, nil
}

// lettersTo returns the mails to address, the oldest first.
func (in *installation) lettersTo(address string) ([]letter, error) {
	all, err := in.letters()
	if err != nil {
		return nil, err
	}
	var mine []letter
	for _, l := range all {
		if strings.Contains(l.Header.Get("To"), address) {
			mine = append(mine, l)
		}
	}
	return mine, nil
}

// await returns the mails to address once there are n of them.
func (in *installation) await(address string, n int, within time.Duration) []letter {
	in.t.Helper()
	var mine []letter
	eventually(in.t, within, fmt.Sprintf("%d mails to %s", n, address), func() (bool, error) {
		var err error
		mine, err = in.lettersTo(address)
		if err == nil && len(mine) < n {
			err = fmt.Errorf("%d so far", len(mine))
		}
		return len(mine) >= n, err
	})
	return mine
}

func (in *installation) get(url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(in.t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %d", url, response.StatusCode)
	}
	return body, nil
}

// count runs a query that answers one number, as the administrator.
func (in *installation) count(sql string, args ...any) int {
	in.t.Helper()
	var n int
	if err := in.db.Pool("").QueryRow(in.t.Context(), sql, args...).Scan(&n); err != nil {
		in.t.Fatal(err)
	}
	return n
}

// wipeNATS deletes the store of nats-server, which must not run.
func (in *installation) wipeNATS() {
	in.t.Helper()
	if err := os.RemoveAll(filepath.Join(in.dir, "nats")); err != nil {
		in.t.Fatal(err)
	}
}

func containsAddress(to, address string) bool {
	return strings.Contains(to, "<"+address+">") || to == address
}
