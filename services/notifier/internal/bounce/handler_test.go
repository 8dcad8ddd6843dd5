package bounce_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/web"
	"github.com/slotwise/slotwise/services/notifier/internal/bounce"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"
)

const secret = "a secret of some length"

// server is the endpoint on a socket.
type server struct {
	fixture
	url      string
	registry *prometheus.Registry
	logged   *observer.ObservedLogs
}

func serve(t *testing.T) server {
	t.Helper()
	f := open(t)
	registry := prometheus.NewRegistry()
	core, logged := observer.New(zapcore.DebugLevel)
	log := zaptest.NewLogger(t, zaptest.WrapOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return zapcore.NewTee(c, core) })))
	s := httptest.NewServer(bounce.New(f.pool, secret, log, registry))
	t.Cleanup(s.Close)
	return server{f, s.URL, registry, logged}
}

// answer is what a request was answered with.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask sends a request. Its headers are pairs of name and value.
func (s server) ask(method, path string, body []byte, headers ...string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, text}
}

// post delivers a report and returns what came of it.
func (s server) post(contentType string, body []byte) (came bounce.Answer) {
	s.t.Helper()
	a := s.ask(http.MethodPost, bounce.Path, body, "Authorization", "Bearer "+secret, "Content-Type", contentType)
	if err := json.Unmarshal(a.body, &came); err != nil || a.status != http.StatusOK || a.header.Get("Content-Type") != "application/json" {
		s.t.Fatalf("%d: %s, %v", a.status, a.body, err)
	}
	return came
}

func (s server) counted(typ bounce.Type) (n float64) {
	s.t.Helper()
	families, err := s.registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "slotwise_bounces_total" {
		s.t.Fatalf("%v, %v", families, err)
	}
	for _, m := range families[0].GetMetric() {
		if m.GetLabel()[0].GetValue() == string(typ) {
			n = m.GetCounter().GetValue()
		}
	}
	return n
}

// about makes a sample a report about the mail of key, to address.
func about(t *testing.T, sample, key, address string) []byte {
	t.Helper()
	name, ok := bounce.Name(key)
	if !ok {
		t.Fatalf("%s has no name", key)
	}
	return []byte(strings.NewReplacer("c0698ovir79u4r3kv18diofaebsv3", name, "C0698OVIR79U4R3KV18DIOFAEBSV3", strings.ToUpper(name),
		"email-confirm-"+booking+"-v3", key, "zoe@customers.example", address).Replace(string(samples(t)[sample])))
}

// Each server's report, as its mail and as its body, marks the mail, tells the host once and
// suppresses the address when it is gone.
func TestB74Reports(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for sample, gone := range map[string]bool{
		"postfix-unknown": true, "postfix-message-id": true, "postfix-expired": false, "exim-refused": true,
		"exchange-not-found": true, "exchange-full": false,
	} {
		b := s.booked(sample + "@customers.example")
		key := s.sent(mail(b, sendlog.Customer))
		report := about(t, sample, key, b.Address)
		want := bounce.Answer{Message: key, Type: bounce.Hard, Outcome: bounce.Bounced}
		if got := s.post("message/rfc822", report); got != want {
			t.Errorf("%s: %+v", sample, got)
		}
		want.Outcome = bounce.Unchanged
		if got := s.post("message/rfc822", report); got != want {
			t.Errorf("%s again: %+v", sample, got)
		}
		if got := s.state(key); !strings.HasPrefix(got, "sent: bounced: ") || !strings.HasSuffix(got, " (bounced)") || strings.Contains(got, "customers.example>") {
			t.Errorf("%s: the mail is %q", sample, got)
		}
		if (s.suppressed() == b.Address) != gone || strings.Count(s.notices(), key) != 1 {
			t.Errorf("%s: suppressed %q, notices %q", sample, s.suppressed(), s.notices())
		}
		s.exec(`delete from notifier.suppressions`)
		s.exec(`update notifier.send_log set state = 'sent', accepted_at = now() where kind = 'notice'`) // out of the way
	}
	if n := s.counted(bounce.Hard); n != 6 {
		t.Errorf("%v bounces counted", n)
	}
	for _, e := range s.logged.All() {
		for name, value := range e.ContextMap() {
			if text, ok := value.(string); ok && strings.Contains(text, "@") {
				t.Errorf("logged: %s, %s: %s", e.Message, name, text)
			}
		}
	}
}

func TestReportsOfOtherKinds(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := s.booked("zoe@customers.example")
	key := s.sent(mail(b, sendlog.Customer))
	if got := s.post("message/rfc822", about(t, "postfix-delayed", key, b.Address)); got.Outcome != bounce.Noted || got.Type != bounce.Soft {
		t.Errorf("delayed: %+v", got)
	}
	s.want(key, "sent: delayed: connect to mx.customers.example[198.51.100.7]:25: Connection timed out")
	if got := s.post("message/rfc822", about(t, "postfix-delivered", key, b.Address)); got.Outcome != bounce.Ignored || got.Type != bounce.None {
		t.Errorf("delivered: %+v", got)
	}
	if got := s.post("message/rfc822", samples(t)["postfix-unknown"]); got.Outcome != bounce.Unmatched || got.Message != "" {
		t.Errorf("about another mail: %+v", got)
	}
	report := about(t, "postfix-alias", key, b.Address)
	_, body, _ := bytes.Cut(report, []byte("\r\n\r\n"))
	if got := s.post(`multipart/report; report-type=delivery-status; boundary="B3/mx1.slotwise.example"`, body); got.Outcome != bounce.Bounced || got.Message != key {
		t.Errorf("the body of a report: %+v", got)
	}
	if s.suppressed() != "" {
		t.Errorf("suppressed: %q, and it was somebody behind the address", s.suppressed())
	}
	if s.counted(bounce.Soft) != 1 || s.counted(bounce.Hard) != 1 || s.counted("unmatched") != 1 {
		t.Error("counted otherwise")
	}
}

func TestReportsOfProviders(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := s.booked("zoe@customers.example")
	key := s.sent(mail(b, sendlog.Customer))
	name, _ := bounce.Name(key)
	for _, step := range []struct {
		body string
		want bounce.Outcome
	}{
		{`{"message_id": "<` + key + `@mail.slotwise.example>", "type": "soft", "diagnostic": "452 4.2.2 zoe@customers.example is full"}`, bounce.Noted},
		{`{"return_path": "B+` + strings.ToUpper(name) + `@bounces.slotwise.example", "type": "hard", "status": "5.1.1"}`, bounce.Bounced},
		{`{"return_path": "b+` + name + `@bounces.slotwise.example", "type": "hard", "status": "5.1.1"}`, bounce.Unchanged},
		{`{"message_id": "<something@else.example>", "type": "hard", "status": "5.1.1"}`, bounce.Unmatched},
	} {
		if got := s.post("application/json; charset=utf-8", []byte(step.body)); got.Outcome != step.want {
			t.Errorf("%s: %+v", step.body, got)
		}
	}
	s.want(key, "sent: bounced: status 5.1.1 (bounced)")
	if s.suppressed() != b.Address {
		t.Errorf("suppressed: %q", s.suppressed())
	}
}

// Whoever may not ask changes nothing, and what is no report is told so.
func TestWrongRequests(t *testing.T) {
	t.Parallel()
	s := serve(t)
	key := s.sent(mail(s.booked("zoe@customers.example"), sendlog.Customer))
	report := about(t, "postfix-unknown", key, "zoe@customers.example")
	const rfc822 = "message/rfc822"
	may := []string{"Authorization", "Bearer " + secret, "Content-Type"}
	tests := map[string]struct {
		method, path string
		body         []byte
		headers      []string
		status       int
		problem      string
	}{
		"no token":      {"POST", bounce.Path, report, []string{"Content-Type", rfc822}, 401, "unauthorized"},
		"another token": {"POST", bounce.Path, report, []string{"Content-Type", rfc822, "Authorization", "Bearer " + secret + "x"}, 401, "unauthorized"},
		"a part of it":  {"POST", bounce.Path, report, []string{"Content-Type", rfc822, "Authorization", "Bearer " + secret[:5]}, 401, "unauthorized"},
		"empty token":   {"POST", bounce.Path, report, []string{"Content-Type", rfc822, "Authorization", "Bearer "}, 401, "unauthorized"},
		"another way":   {"POST", bounce.Path, report, []string{"Content-Type", rfc822, "Authorization", "Basic " + secret}, 401, "unauthorized"},
		"GET":           {"GET", bounce.Path, nil, append(may, rfc822), 405, "method-not-allowed"},
		"elsewhere":     {"POST", "/", report, append(may, rfc822), 404, "not-found"},
		"no type":       {"POST", bounce.Path, report, append(may, ""), 415, "unsupported-media-type"},
		"a form":        {"POST", bounce.Path, report, append(may, "application/x-www-form-urlencoded"), 415, "unsupported-media-type"},
		"no report":     {"POST", bounce.Path, samples(t)["vacation"], append(may, rfc822), 422, "no-report"},
		"in another":    {"POST", bounce.Path, samples(t)["report-in-report"], append(may, rfc822), 422, "no-report"},
		"empty":         {"POST", bounce.Path, nil, append(may, rfc822), 422, "no-report"},
		"no JSON":       {"POST", bounce.Path, report, append(may, "application/json"), 422, "no-report"},
		"too large":     {"POST", bounce.Path, append(report, bytes.Repeat([]byte("x"), 1<<20)...), append(may, rfc822), 413, "body-too-large"},
	}
	for name, tt := range tests {
		a := s.ask(tt.method, tt.path, tt.body, tt.headers...)
		var p web.Problem
		if err := json.Unmarshal(a.body, &p); err != nil || a.status != tt.status || p.Status != tt.status || p.Type != "/problems/"+tt.problem || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s, %v", name, a.status, a.body, err)
		}
		if strings.Contains(string(a.body), secret) {
			t.Errorf("%s: the answer tells the secret", name)
		}
	}
	s.want(key, "sent")

	s.pool.Close()
	a := s.ask("POST", bounce.Path, report, append(may, rfc822)...)
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || !bytes.Contains(a.body, []byte("/problems/unavailable")) {
		t.Errorf("without PostgreSQL: %d %s", a.status, a.body)
	}
}
