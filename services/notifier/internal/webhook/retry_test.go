package webhook

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/slotwise/slotwise/testkit/hooktest"
)

// The waits are those of the table, longer by a fifth at most; after the tenth try the delivery is
// held, and recovering it gives it all of them again.
func TestRetries(t *testing.T) {
	t.Parallel()
	s := newStage(t, DefaultTimes(), hooktest.Options{})
	s.endpoint("we_a", s.hooks.URL("/a"))
	key, sender := s.plan("we_a"), s.idle()
	for round := range 2 {
		for i, step := range []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour} {
			h := s.one(sender)
			if h.Attempts != i || h.N != round*10+i+1 {
				t.Fatalf("hand %d after %d attempts, want %d", h.N, h.Attempts, i)
			}
			s.write(sender, end{h, ending{outcome: failed, words: "500 no"}})
			s.want(key, "planned: 500 no")
			wait := time.Duration(s.number(`select round(extract(epoch from due_at - clock_timestamp()) * 1000) from notifier.send_log`)) * time.Millisecond
			if wait < step-2*time.Second || wait > step+step/5+time.Second {
				t.Errorf("try %d is due after %s, want %s and a fifth more", i+2, wait, step)
			}
			if more, _, err := sender.hand(t.Context(), 10, 10); err != nil || len(more) != 0 {
				t.Errorf("handed before it is due: %v, %v", more, err)
			}
			s.exec(`update notifier.send_log set due_at = now()`)
		}
		s.write(sender, end{s.one(sender), ending{outcome: failed, words: "500 no"}})
		s.want(key, "held: too many tries: 500 no")
		s.exec(`select notifier.retry(jsonb_build_object('keys', jsonb_build_array($1::text)), 'anna')`, key)
	}
	if n := s.number(`select count(*) from notifier.hands where outcome = 'held' and n in (10, 20)`); n != 2 {
		t.Errorf("%d hands ended held", n)
	}
}

func TestJitterOnlyAdds(t *testing.T) {
	t.Parallel()
	times := DefaultTimes()
	seen := map[time.Duration]bool{}
	for range 1000 {
		wait := times.wait(end{ending: ending{outcome: failed}})
		if wait < 5*time.Second || wait > 6*time.Second {
			t.Fatalf("wait %s", wait)
		}
		seen[wait] = true
	}
	if len(seen) < 100 {
		t.Errorf("%d different waits of 1000", len(seen))
	}
}

// What each answer means. No redirect is followed, and of no body more than 1 KiB is kept.
func TestAnswers(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Timeout, times.Dial = 500*time.Millisecond, 500*time.Millisecond
	times.Steps = []time.Duration{time.Hour}
	s := newStage(t, times, hooktest.Options{})
	elsewhere := hooktest.New(t, hooktest.Options{})
	to := http.Header{"Location": {elsewhere.URL("/secret")}}
	tests := []struct {
		name  string
		fault hooktest.Fault
		state string
		kind  kind
	}{
		{"200", hooktest.Fault{Status: 200, Body: "thanks"}, "sent", kindNone},
		{"202", hooktest.Fault{Status: 202}, "sent", kindNone},
		{"299", hooktest.Fault{Status: 299}, "sent", kindNone},
		{"stuck", hooktest.Fault{Status: 200, Body: "ok", Stuck: true}, "sent", kindNone},
		{"301", hooktest.Fault{Status: 301, Header: to}, "planned: 301", kindRedirect},
		{"B113-302", hooktest.Fault{Status: 302, Header: to}, "planned: 302", kindRedirect},
		{"303", hooktest.Fault{Status: 303, Header: to}, "planned: 303", kindRedirect},
		{"304", hooktest.Fault{Status: 304}, "planned: 304", kindRedirect},
		{"B113-307", hooktest.Fault{Status: 307, Header: to, Size: 200_000}, "planned: 307", kindRedirect},
		{"B113-308", hooktest.Fault{Status: 308, Header: to}, "planned: 308", kindRedirect},
		{"400", hooktest.Fault{Status: 400, Body: "no\x1b[31m\x00!\xff\u202e"}, "planned: 400 no [31m !?", kindClient},
		{"404", hooktest.Fault{Status: 404}, "planned: 404", kindClient},
		{"500", hooktest.Fault{Status: 500, Body: "line one\nline two\n"}, "planned: 500 line one\nline two", kindServer},
		{"999", hooktest.Fault{Status: 999}, "planned: 999", kindStatus},
		{"closed", hooktest.Fault{Close: true}, "planned: the connection was closed without an answer", kindClosed},
		{"silent", hooktest.Fault{Silent: true}, "planned: no answer within 500ms", kindTimeout},
		{"big", hooktest.Fault{Status: 500, Size: 5 << 20}, "planned: 500 ", kindServer},
	}
	faults, keys := []hooktest.Fault{}, map[string]string{}
	for i, tt := range tests {
		tt.fault.Path = "/" + tt.name
		faults = append(faults, tt.fault)
		keys[tt.name] = s.plan(s.endpoint(fmt.Sprintf("we_%d", i), s.hooks.URL(tt.fault.Path)))
	}
	refused := hooktest.New(t, hooktest.Options{TLS: true}) // its authority is not ours
	keys["certificate"] = s.plan(s.endpoint("we_tls", refused.URL("/")))
	keys["no TLS"] = s.plan(s.endpoint("we_tls2", strings.Replace(s.hooks.URL("/"), "http:", "https:", 1)))
	keys["nobody"] = s.plan(s.endpoint("we_nobody", "http://127.0.0.1:1/"))
	keys["name"] = s.plan(s.endpoint("we_name", "http://nowhere.invalid/"))
	keys["url"] = s.plan(s.endpoint("we_url", "ftp://a.example/"))
	keys["null"] = s.plan(s.endpoint("we_null", "x"))
	s.exec(`update notifier.endpoints set url = null where id = 'we_null'`)
	s.hooks.Script(faults...)
	r := s.start()
	for _, tt := range tests {
		s.await(keys[tt.name], strings.SplitN(tt.state, ":", 2)[0])
		s.until("the hand ended", func() bool {
			return s.number(`select count(*) from notifier.hands where key = $1 and ended_at is not null`, keys[tt.name]) == 1
		})
		if got := s.state(keys[tt.name]); got != tt.state && (tt.fault.Size == 0 || !strings.HasPrefix(got, tt.state)) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.state)
		}
		if n := s.hooks.Count("/" + tt.name); n != 1 {
			t.Errorf("%s: %d requests", tt.name, n)
		}
		if failing := s.number(`select count(*) from notifier.endpoints e join notifier.send_log s on s.endpoint = e.id where s.key = $1 and failing_since is not null`, keys[tt.name]) == 1; failing != (tt.kind != kindNone) {
			t.Errorf("%s: failing %v", tt.name, failing)
		}
	}
	for name, state := range map[string]string{
		"certificate": "planned: TLS: x509: certificate signed by unknown authority",
		"no TLS":      "planned: no connection: TLS or the proxy failed",
		"nobody":      "planned: no connection: connection refused",
		"name":        "planned: the host's name",
		"url":         "planned: the URL is not allowed: it must begin with https:// or http://",
		"null":        "planned: the URL is not allowed: it is empty",
	} {
		s.await(keys[name], state)
	}
	if n := elsewhere.Count(""); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
	if n := s.number(`select max(octet_length(answer)) from notifier.hands`); n != 1024 {
		t.Errorf("%d bytes of an answer are kept", n)
	}
	if n := s.number(`select count(*) from notifier.send_log where attempts <> case state when 'sent' then 0 else 1 end`); n != 0 {
		t.Errorf("%d rows with another number of attempts", n)
	}
	for kind, n := range map[kind]float64{kindRedirect: 6, kindClient: 2, kindServer: 2, kindClosed: 1, kindTimeout: 1, kindTLS: 2, kindConnect: 1, kindForbidden: 2} {
		if got := r.counter(t, "slotwise_webhook_failures_total", string(kind)); got != n {
			t.Errorf("%v failures of kind %s, want %v", got, kind, n)
		}
	}
}

// counter is the sum of a counter over the label sets that have a value.
func (r *sender) counter(t *testing.T, name, value string) (sum float64) {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			match := value == ""
			for _, l := range m.GetLabel() {
				match = match || l.GetValue() == value
			}
			if match {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// Answers that no HTTP server gives: each ends within the timeout as a failure, and its result is
// written.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	times := quick()
	times.Timeout, times.Dial = 500*time.Millisecond, 500*time.Millisecond
	times.Steps = []time.Duration{time.Hour}
	s := newStage(t, times, hooktest.Options{})
	const begin = "HTTP/1.1 500 Oops\r\n"
	tests := map[string]struct {
		head, again string // again is sent until the sender leaves
		pause       time.Duration
		state       string
	}{
		"headers without end":  {head: begin, again: "X-A: " + strings.Repeat("a", 1000) + "\r\n", state: "planned: no answer that can be read"},
		"headers that drip":    {head: begin, again: "X-A: a\r\n", pause: 20 * time.Millisecond, state: "planned: no answer within 500ms"},
		"early hints for ever": {again: "HTTP/1.1 103 Early Hints\r\n\r\n", state: "planned: no answer that can be read"},
		"no HTTP":              {head: "SSH-2.0-OpenSSH_9.9\r\n\r\n", state: "planned: no answer that can be read"},
		"nothing":              {again: "\x00", state: "planned: no answer that can be read"},
		"two lengths":          {head: begin + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", state: "planned: no answer that can be read"},
		"a shorter body":       {head: begin + "Content-Length: 9\r\nConnection: close\r\n\r\nab", state: "planned: 500 ab"},
		"a body that drips":    {head: begin + "Content-Length: 9000\r\n\r\n", again: "b", pause: 20 * time.Millisecond, state: "planned: 500 b"},
		"no gzip":              {head: begin + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b", state: "planned: 500"},
		"half a rune":          {head: begin + "Content-Length: 2000\r\n\r\n" + strings.Repeat("é", 1000), state: "planned: 500 éé"},
	}
	keys := map[string]string{}
	for name, tt := range tests {
		at := answering(t, []byte(tt.head), []byte(tt.again), tt.pause)
		keys[name] = s.plan(s.endpoint(fmt.Sprintf("we_%d", len(keys)), "http://"+at))
	}
	s.start()
	for name, tt := range tests {
		s.until(name+" is written", func() bool {
			return s.number(`select count(*) from notifier.hands where key = $1 and ended_at < handed_at + interval '5 seconds'`, keys[name]) == 1
		})
		if got := s.state(keys[name]); !strings.HasPrefix(got, tt.state) || !utf8.ValidString(got) {
			t.Errorf("%s: %q, want %q", name, got, tt.state)
		}
	}
}

// answering listens, and answers each connection's request with head and then with again for as
// long as somebody reads it.
func answering(t *testing.T, head, again []byte, pause time.Duration) (addr string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer conn.Close()
				buffer := make([]byte, 32<<10)
				conn.Read(buffer)                                  //nolint:errcheck // whatever it asks
				conn.SetDeadline(time.Now().Add(10 * time.Second)) //nolint:errcheck // it is open
				_, err := conn.Write(head)
				for err == nil && len(again) > 0 {
					<-time.After(pause)
					_, err = conn.Write(again)
				}
				io.Copy(io.Discard, conn) //nolint:errcheck // until the sender leaves
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		open.Wait()
	})
	return listener.Addr().String()
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"7": 7 * time.Second, " 7 ": 7 * time.Second, "0": 0, "-7": 0, "": 0, "soon": 0, "1.5": 0, "99999999999999": 0,
		"Tue, 01 Dec 2026 09:02:00 GMT": 2 * time.Minute, "Tue, 01 Dec 2026 08:00:00 GMT": 0, "Tuesday, 01-Dec-26 09:02:00 GMT": 2 * time.Minute,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	times := DefaultTimes()
	times.Spread = 0
	for status, want := range map[int]time.Duration{429: time.Minute, 502: time.Minute, 503: time.Minute, 504: time.Minute, 500: 0, 400: 0, 301: 0} {
		e := answered(status, http.Header{"Retry-After": {"60"}}, nil, now)
		if e.after != want || times.wait(end{ending: e}) != max(want, 5*time.Second) {
			t.Errorf("%d: after %s, waits %s", status, e.after, times.wait(end{ending: e}))
		}
	}
	for after, want := range map[time.Duration]time.Duration{time.Second: 5 * time.Second, 48 * time.Hour: time.Hour} {
		if got := times.wait(end{ending: ending{outcome: failed, after: after}}); got != want {
			t.Errorf("after %s it waits %s, want %s", after, got, want)
		}
	}
}

// An endpoint that asks for rest gets it for all of its deliveries; others do not notice.
func TestRestIsForTheEndpoint(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.hooks.Script(hooktest.Fault{Path: "/a", Status: 429, Header: http.Header{"Retry-After": {"3600"}}})
	s.endpoint("we_a", s.hooks.URL("/a"))
	s.endpoint("we_b", s.hooks.URL("/b"))
	s.exec(`update notifier.endpoints set concurrency = 1`)
	mine, others := s.planMany("we_a", 20), s.planMany("we_b", 20)
	s.start()
	for _, key := range others {
		s.await(key, "sent")
	}
	s.await(mine[0], "planned: 429")
	s.await(s.plan("we_b"), "sent")
	if n := s.hooks.Count("/a"); n != 1 {
		t.Errorf("%d requests to an endpoint that wants none for an hour", n)
	}
	s.exec(`update notifier.endpoint_pace set next_at = now()`)
	s.until("it is tried again", func() bool { return s.hooks.Count("/a") == 2 })
}

// Both of our own faults: nothing that we broke counts as the endpoint's failure.
func TestB117OurFaultsAreNotTheEndpoints(t *testing.T) {
	t.Parallel()
	s := newStage(t, DefaultTimes(), hooktest.Options{})
	s.endpoint("we_a", s.hooks.URL("/a"))
	s.exec(`update notifier.endpoints set failing_since = now() - interval '30 days'`)
	key, sender := s.plan("we_a"), s.idle()
	for outcome, state := range map[outcome]string{lost: "planned: x", cut: "unknown: x", unsendable: "held: x"} {
		off := s.write(sender, end{s.one(sender), ending{outcome: outcome, words: "x"}})
		s.want(key, state)
		if len(off) != 0 || s.number(`select attempts from notifier.send_log`) != 0 || s.number(`select count(*) from notifier.endpoints where enabled`) != 1 {
			t.Errorf("%s counts as a failure", outcome)
		}
		s.exec(`update notifier.send_log set state = 'planned', due_at = now()`)
	}
	if n := s.number(`select unknowns from notifier.send_log`); n != 1 {
		t.Errorf("%d marks, want 1", n)
	}
}
