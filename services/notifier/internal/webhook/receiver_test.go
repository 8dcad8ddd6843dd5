package webhook

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/testkit/checkout"
	"github.com/slotwise/slotwise/testkit/hooktest"
)

// languages are those in which docs/webhooks.md has a receiver. Go is here, as this test is; what
// else this machine has is run too.
var languages = []struct {
	heading, file string
	command       []string
}{
	{"Go", "receiver.go", []string{"go", "run"}},
	{"Python", "receiver.py", []string{"python3"}},
	{"Node", "receiver.js", []string{"node"}},
}

// snippet is the program below a heading of docs/webhooks.md.
func snippet(t *testing.T, heading string) string {
	t.Helper()
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "webhooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile("(?s)\n### " + heading + "\n\n```[a-z]+\n(.*?)```\n").FindSubmatch(text)
	if match == nil {
		t.Fatalf("docs/webhooks.md has no program below %s", heading)
	}
	return string(match[1])
}

// receiver is a program of docs/webhooks.md that runs.
type receiver struct {
	url   string
	lines chan string
}

func startReceiver(t *testing.T, heading, file string, command []string) receiver {
	t.Helper()
	path := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(path, []byte(snippet(t, heading)), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a loopback socket
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	free.Close()
	if command[0] == "go" { // built and then run, so that what is killed is the program
		program := filepath.Join(filepath.Dir(path), "receiver")
		build := exec.CommandContext(t.Context(), "go", "build", "-o", program, path)
		build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		command, path = nil, program
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	args := append(slices.Clone(command), path)
	program := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // a program of this repository
	program.Env = append(os.Environ(), "PORT="+port, "WEBHOOK_SECRET="+secret("a"))
	var complaints bytes.Buffer
	program.Stderr = &complaints
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	r := receiver{"http://127.0.0.1:" + port + "/hooks", make(chan string, 100)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			r.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-read
		_ = program.Wait()
		if t.Failed() {
			t.Logf("%s says: %s", heading, complaints.String())
		}
	})
	for end := time.Now().Add(soon); ; <-time.After(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port) //nolint:noctx // a loopback socket
		if err == nil {
			conn.Close()
			return r
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not listen: %s", heading, complaints.String())
		}
	}
}

// The receivers of docs/webhooks.md take our deliveries, v2 before v1 and copies too, while the secret
// is rotated, and nothing that is not genuine.
func TestReceivers(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		if _, err := exec.LookPath(l.command[0]); err != nil {
			t.Logf("there is no %s here: its receiver is not run", l.command[0])
			continue
		}
		t.Run(l.heading, func(t *testing.T) {
			t.Parallel()
			r := startReceiver(t, l.heading, l.file, l.command)
			s := newStage(t, quick(), hooktest.Options{})
			s.endpoint("we_a", r.url)
			s.exec(`update notifier.endpoint_secrets set expires_at = now() + interval '1 hour'`)
			s.exec(`insert into notifier.endpoint_secrets (endpoint, secret) values ('we_a', $1)`, secret("b"))
			s.start()
			send := func(version int64, want string) {
				t.Helper()
				m := message(t, "we_a", booking, version)
				s.planAll(m)
				s.await(m.Key, "sent")
				if got := <-r.lines; got != want {
					t.Errorf("version %d: the receiver says %q, want %q", version, got, want)
				}
			}
			send(2, "booking.v1.confirmed 2 true")
			send(1, "booking.v1.confirmed 1 false") // v2 was before v1
			send(3, "booking.v1.confirmed 3 true")
			s.exec(`insert into notifier.send_log (key, channel, booking, kind, version, endpoint, copy, urgency, state, due_at, payload)
				select key || '-c2', channel, booking, kind, version, endpoint, 2, urgency, 'planned', now(), payload from notifier.send_log where version = 3`)
			s.log.WakeWebhooks()
			if got := <-r.lines; got != "booking.v1.confirmed 3 false" {
				t.Errorf("the receiver says of a copy %q", got)
			}
			refuses(t, r.url)
		})
	}
}

// refuses fails unless what was changed on its way, is old, or has no signature is refused.
func refuses(t *testing.T, url string) {
	t.Helper()
	for name, change := range map[string]func(*http.Request, *[]byte){
		"another body": func(_ *http.Request, body *[]byte) {
			*body = bytes.Replace(*body, []byte(`"seats":2`), []byte(`"seats":3`), 1)
		},
		"another id": func(r *http.Request, _ *[]byte) { r.Header.Set("Webhook-Id", "x") },
		"another time": func(r *http.Request, _ *[]byte) {
			r.Header.Set("Webhook-Timestamp", strconv.FormatInt(time.Now().Unix()+9, 10))
		},
		"no time":      func(r *http.Request, _ *[]byte) { r.Header.Del("Webhook-Timestamp") },
		"no signature": func(r *http.Request, _ *[]byte) { r.Header.Del("Webhook-Signature") },
		"half of one": func(r *http.Request, _ *[]byte) {
			r.Header.Set("Webhook-Signature", r.Header.Get("Webhook-Signature")[:20])
		},
		"another secret": nil,
		"an hour old":    nil,
	} {
		h, at := golden(t), time.Now()
		h.URL = url
		switch name {
		case "another secret":
			h.Secrets = []string{secret("z")}
		case "an hour old":
			at = at.Add(-time.Hour)
		}
		r, err := h.request(t.Context(), Rules{HTTP: true, Allow: prefixes("127.0.0.0/8")}, at)
		if err != nil {
			t.Fatal(err)
		}
		body := bytes.Clone(h.Facts.Event)
		if change != nil {
			change(r, &body)
		}
		again, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		again.Header = r.Header
		answer, err := http.DefaultClient.Do(again)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, answer.StatusCode)
		}
	}
}

// What we send is verified by Python's official library where that is installed, else by a dozen lines of
// hmac, and by a dozen lines of node:crypto, where those languages are; and by them alone are we
// told that a changed body is refused.
func TestB121OtherLanguagesVerify(t *testing.T) {
	t.Parallel()
	rotating := golden(t)
	rotating.Secrets = []string{secret("a"), secret("b")}
	prefix, raw := secret("a"), strings.TrimPrefix(secret("a"), Prefix)
	type check struct {
		Secret  string            `json:"secret"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
		Good    bool              `json:"good"`
	}
	var checks []check
	add := func(h Hand, secret, body string, good bool) {
		r, err := h.request(t.Context(), Rules{}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		headers := map[string]string{}
		for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
			headers[name] = r.Header.Get(name)
		}
		checks = append(checks, check{secret, headers, body, good})
	}
	body := string(golden(t).Facts.Event)
	for _, h := range []Hand{golden(t), rotating} {
		add(h, prefix, body, true)
		add(h, raw, body, true)
		add(h, prefix, body+" ", false)
		add(h, secret("z"), body, false)
	}
	add(rotating, secret("b"), body, true)
	add(golden(t), secret("b"), body, false)
	input, err := json.Marshal(checks)
	if err != nil {
		t.Fatal(err)
	}
	for program, script := range map[string]string{"python3": verifyPython, "node": verifyNode} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Logf("there is no %s here: it is not asked", program)
			continue
		}
		flag := map[string]string{"python3": "-c", "node": "-e"}[program]
		cmd := exec.CommandContext(t.Context(), path, flag, script) //nolint:gosec // a script of this file
		cmd.Stdin = bytes.NewReader(input)
		out, err := cmd.CombinedOutput()
		if want := fmt.Sprintf("%d as expected", len(checks)); err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%s: %v: %s", program, err, out)
		}
		t.Logf("%s: %s", program, out)
	}
}

const verifyPython = `
import base64, hashlib, hmac, json, sys
try:
    from standardwebhooks import Webhook
    by = "the official library"
    def verify(secret, headers, body):
        Webhook(secret).verify(body, headers)
except ImportError:
    by = "hmac"
    def verify(secret, headers, body):
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = "%s.%s.%s" % (headers["webhook-id"], headers["webhook-timestamp"], body)
        want = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
        if not any(hmac.compare_digest(s, "v1," + want) for s in headers["webhook-signature"].split(" ")):
            raise ValueError("no signature fits")
n = 0
for c in json.load(sys.stdin):
    try:
        verify(c["secret"], c["headers"], c["body"])
        good = True
    except Exception:
        good = False
    n += good == c["good"]
print(n, "as expected, by", by)
`

const verifyNode = `
const crypto = require('node:crypto');
let n = 0;
for (const c of JSON.parse(require('node:fs').readFileSync(0, 'utf8'))) {
  const key = Buffer.from(c.secret.replace(/^whsec_/, ''), 'base64');
  const signed = c.headers['webhook-id'] + '.' + c.headers['webhook-timestamp'] + '.' + c.body;
  const want = Buffer.from('v1,' + crypto.createHmac('sha256', key).update(signed).digest('base64'));
  const good = c.headers['webhook-signature'].split(' ').map((s) => Buffer.from(s))
    .some((got) => got.length === want.length && crypto.timingSafeEqual(got, want));
  if (good === c.good) n++;
}
console.log(n + ' as expected, by node:crypto');
`

// docs/webhooks.md tells the waits that are kept.
func TestRetryTableOfTheDocs(t *testing.T) {
	t.Parallel()
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "webhooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	var waits []time.Duration
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \| (\d+) (s|min|h) \|`).FindAllStringSubmatch(string(text), -1) {
		wait, err := time.ParseDuration(row[2] + strings.TrimSuffix(row[3], "in"))
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, wait)
	}
	if !slices.Equal(waits, DefaultTimes().Steps) {
		t.Errorf("the table says %v", waits)
	}
}
