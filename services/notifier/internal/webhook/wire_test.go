package webhook

import (
	"bytes"
	"encoding/base64"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/testkit/hooktest"
)

var update = flag.Bool("update", false, "write the golden files")

const booking = "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"

// golden is a hand whose request is always the same.
func golden(t *testing.T) Hand {
	t.Helper()
	m := message(t, "we_abcdefghijklmnop", booking, 3)
	return Hand{
		Key: m.Key, Token: "5e1f7f5c-93a1-4f4e-a0c5-1c2f6f0f9a3b", N: 1, Copy: 1, Facts: m.Facts, Endpoint: m.Endpoint,
		URL: "https://hooks.example.org/slotwise?team=7", Secrets: []string{secret("a")},
	}
}

// The golden files are read in review: what a receiver gets.
func TestGolden(t *testing.T) {
	t.Parallel()
	rotating := golden(t)
	rotating.Secrets = append(rotating.Secrets, secret("b"))
	resent := golden(t)
	resent.Key, resent.Copy, resent.Token = resent.Key+"-c2", 2, "00000000-93a1-4f4e-a0c5-1c2f6f0f9a3b"
	for name, h := range map[string]Hand{"delivery": golden(t), "rotating": rotating, "resent": resent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := h.request(t.Context(), Rules{}, time.Unix(1796115600, 0))
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := r.Write(&got); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".http")
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("the request differs from %s (write it with -update):\n%s", file, got.Bytes())
			}
		})
	}
}

// Each try has the same id and the same bytes; its time, signature and hand are its own. A copy
// that somebody asked for has the id of the first.
func TestTriesAreEqual(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{TLS: true})
	s.hooks.Script(hooktest.Fault{Times: 2, Status: 500})
	s.endpoint("we_a", s.hooks.URL("/a"))
	key := s.plan("we_a")
	s.start()
	s.await(key, "sent")
	s.exec(`insert into notifier.send_log (key, channel, booking, kind, version, endpoint, copy, urgency, state, due_at, payload)
		select key || '-c2', channel, booking, kind, version, endpoint, 2, urgency, 'planned', now(), payload from notifier.send_log`)
	s.log.WakeWebhooks()
	s.await(key+"-c2", "sent")
	got := s.hooks.Requests()
	if len(got) != 4 {
		t.Fatalf("%d requests", len(got))
	}
	hands := map[string]bool{}
	for _, r := range got {
		if err := r.Verify(secret("a")); err != nil {
			t.Error(err)
		}
		if r.ID() != key || !bytes.Equal(r.Body, got[0].Body) || len(r.Body) > maxBody || r.Method != http.MethodPost {
			t.Errorf("%s %s: %s", r.Method, r.ID(), r.Body)
		}
		if r.Proto != "HTTP/2.0" || r.Header.Get("Content-Type") != contentType || r.Header.Get("User-Agent") != userAgent || r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("%s %v", r.Proto, r.Header)
		}
		hands[r.Header.Get(handHeader)] = true
	}
	if len(hands) != 4 {
		t.Errorf("%d hands", len(hands))
	}
	want := s.text(`select string_agg(n || ' ' || outcome || ' ' || answer, ', ' order by key, n) from notifier.hands`)
	if want != "1 planned 500, 2 planned 500, 3 sent 204, 1 sent 204" {
		t.Errorf("hands: %s", want)
	}
}

// B121: base64 of a secret with and without its prefix is one key to the library.
func TestB121Base64OfSecrets(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"\xff\xfe\xfd", "a", "ab", strings.Repeat("\x00\xff", 16), strings.Repeat("k", 24), strings.Repeat("~?>", 21)} {
		text := base64.StdEncoding.EncodeToString([]byte(key))
		now := time.Now()
		h := golden(t)
		h.Secrets = []string{Prefix + text}
		r, err := h.request(t.Context(), Rules{}, now)
		if err != nil {
			t.Fatal(err)
		}
		got := hooktest.Request{Header: r.Header, Body: h.Facts.Event}
		if err := got.Verify(Prefix + text); err != nil {
			t.Errorf("%q with its prefix: %v", key, err)
		}
		if err := got.Verify(text); err != nil {
			t.Errorf("%q without: %v", key, err)
		}
		if got.Verify(base64.StdEncoding.EncodeToString([]byte(text))) == nil {
			t.Errorf("%q: the text itself is taken for the key", key)
		}
	}
	for _, bad := range []string{"", "whsec_", "whsec_!", "aGVsbG8=", "whsec_aGVsbG8", "WHSEC_aGVsbG8="} {
		if text, err := sign([]string{secret("a"), bad}, "m", 1, nil); err == nil || text != "" || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q signs: %q, %v", bad, text, err)
		}
	}
}

func TestNothingToSend(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.endpoint("we_a", s.hooks.URL("/a"))
	large, empty, bare := s.plan("we_a"), s.plan("we_a"), s.plan("we_a")
	s.exec(`update notifier.send_log set payload = jsonb_build_object('event', encode(convert_to(repeat('x', 20001), 'UTF8'), 'base64')) where key = $1`, large)
	s.exec(`update notifier.send_log set payload = '{}' where key = $1`, empty)
	s.exec(`update notifier.send_log set due_at = now() + interval '1 hour' where key = $1`, bare)
	s.start()
	s.await(large, "held: the event has 20001 bytes, wanted 1 to 20000")
	s.await(empty, "held: the event has 0 bytes")
	s.exec(`delete from notifier.endpoint_secrets`)
	s.exec(`update notifier.send_log set due_at = now() where key = $1`, bare)
	s.await(bare, "held: the endpoint's secret can't be read: there is none")
	if n := s.hooks.Count(""); n != 0 || s.number(`select count(*) from notifier.endpoints where failing_since is not null`) != 0 {
		t.Errorf("%d requests, or the endpoint counts as failing", n)
	}
}
