package hooktest_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/testkit/hooktest"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// post sends a body and returns the status, or 0 and what went wrong.
func post(t *testing.T, client *http.Client, url string, limit time.Duration, header http.Header) (status int, body string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func TestFaults(t *testing.T) {
	t.Parallel()
	s := hooktest.New(t, hooktest.Options{})
	s.Script(
		hooktest.Fault{Path: "/busy", Skip: 1, Times: 1, Status: 503, Header: http.Header{"Retry-After": {"7"}}, Body: "later"},
		hooktest.Fault{Path: "/closed", Close: true},
		hooktest.Fault{Path: "/silent", Silent: true},
		hooktest.Fault{Path: "/stuck", Status: 200, Body: "begun", Stuck: true},
		hooktest.Fault{Path: "/big", Status: 200, Size: 100_000},
	)
	for i, want := range []int{204, 503, 204} {
		if got, _, err := post(t, http.DefaultClient, s.URL("/busy"), time.Minute, nil); got != want || err != nil {
			t.Errorf("request %d: %d, %v, want %d", i, got, err, want)
		}
	}
	if _, _, err := post(t, http.DefaultClient, s.URL("/closed"), time.Minute, nil); !errors.Is(err, io.EOF) {
		t.Errorf("closed: %v", err)
	}
	if _, _, err := post(t, http.DefaultClient, s.URL("/silent"), 50*time.Millisecond, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("silent: %v", err)
	}
	if status, body, err := post(t, http.DefaultClient, s.URL("/stuck"), 200*time.Millisecond, nil); status != 200 || body != "begun" || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stuck: %d %q %v", status, body, err)
	}
	if _, body, err := post(t, http.DefaultClient, s.URL("/big"), time.Minute, nil); len(body) != 100_000 || err != nil {
		t.Errorf("big: %d bytes, %v", len(body), err)
	}
	if got := s.Count("/busy"); got != 3 || s.Count("") != 7 || s.Conns() == 0 {
		t.Errorf("%d requests to one path, %d in all, %d connections", got, s.Count(""), s.Conns())
	}
}

func TestTLSAndVerify(t *testing.T) {
	t.Parallel()
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	s := hooktest.New(t, hooktest.Options{TLS: true})
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig.RootCAs = s.Pool()
	transport.ForceAttemptHTTP2 = true
	defer transport.CloseIdleConnections()
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	signature, err := hook.Sign("msg_1", now, []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {strconv.FormatInt(now.Unix(), 10)}, "Webhook-Signature": {signature}}
	if status, _, err := post(t, &http.Client{Transport: transport}, s.URL("/x"), time.Minute, header); status != 204 || err != nil {
		t.Fatalf("%d, %v", status, err)
	}
	r := s.Wait(1, time.Minute)[0]
	if r.Proto != "HTTP/2.0" || r.ID() != "msg_1" || string(r.Body) != "hello" || r.Path != "/x" || r.Verify(secret) != nil {
		t.Errorf("%+v: %v", r, r.Verify(secret))
	}
	if r.Verify("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx") == nil {
		t.Error("another secret verifies")
	}
}
