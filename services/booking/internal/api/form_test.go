package api

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// B106: the hour that is not there, the one that comes twice, and zones that change clocks by half
// an hour, at midnight, or leave out a day.
func TestB106LocalTimes(t *testing.T) {
	t.Parallel()
	for text, tt := range map[string]struct {
		zone string
		want []string // in UTC; none: there is no such time
	}{
		"2040-07-01T10:00":    {"Europe/Berlin", []string{"2040-07-01T08:00:00Z"}},
		"2040-01-01T10:00":    {"Europe/Berlin", []string{"2040-01-01T09:00:00Z"}},
		"2040-01-01T10:00:31": {"UTC", []string{"2040-01-01T10:00:31Z"}},
		"2040-03-25T01:59":    {"Europe/Berlin", []string{"2040-03-25T00:59:00Z"}},
		"2040-03-25T02:00":    {"Europe/Berlin", nil},
		"2040-03-25T02:59":    {"Europe/Berlin", nil},
		"2040-03-25T03:00":    {"Europe/Berlin", []string{"2040-03-25T01:00:00Z"}},
		"2040-10-28T01:59":    {"Europe/Berlin", []string{"2040-10-27T23:59:00Z"}},
		"2040-10-28T02:00":    {"Europe/Berlin", []string{"2040-10-28T00:00:00Z", "2040-10-28T01:00:00Z"}},
		"2040-10-28T02:59":    {"Europe/Berlin", []string{"2040-10-28T00:59:00Z", "2040-10-28T01:59:00Z"}},
		"2040-10-28T03:00":    {"Europe/Berlin", []string{"2040-10-28T02:00:00Z"}},
		"2026-04-05T01:45":    {"Australia/Lord_Howe", []string{"2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z"}},
		"2026-10-04T02:15":    {"Australia/Lord_Howe", nil},
		"2011-12-30T12:00":    {"Pacific/Apia", nil},
		"2040-06-01T18:45":    {"Asia/Kathmandu", []string{"2040-06-01T13:00:00Z"}},
	} {
		zone, err := time.LoadLocation(tt.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := inZone(text, zone)
		got := []string{at.UTC().Format(time.RFC3339)}
		twice, isTwice := errors.AsType[*twiceError](err)
		switch {
		case isTwice:
			got = nil
			for _, at := range twice.times {
				got = append(got, at.UTC().Format(time.RFC3339))
			}
		case err != nil:
			got = nil
		}
		if strings.Join(got, " ") != strings.Join(tt.want, " ") {
			t.Errorf("%s in %s: %v, want %v (%v)", text, tt.zone, got, tt.want, err)
		}
	}
	for _, text := range []string{"", "tomorrow", "2040-01-01", "2040-01-01 10:00", "2040-13-01T10:00", "2040-01-01T24:00", "2040-01-01T10:00:00.5x"} {
		if at, err := inZone(text, time.UTC); !booking.Refused(err) {
			t.Errorf("%q is %s, %v", text, at, err)
		}
	}
}

// A browser gets a page, a program that says so JSON, and who says nothing a page.
func TestWhoGetsAPage(t *testing.T) {
	t.Parallel()
	for accept, page := range map[string]bool{
		"": true, "*/*": true, "text/html": true, "text/*": true, "application/xhtml+xml": true,
		"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8": true,
		"application/json":                      false,
		"application/*":                         false,
		"application/json, text/plain, */*":     false,
		"application/json;q=0.5, text/html":     true,
		"text/html;q=0.5, application/json":     false,
		"text/html;q=0, */*":                    false,
		"application/json;q=0, */*;q=0.1":       true,
		"*/*, application/json;q=0.1":           true,
		"application/json;q=x, */*":             true,
		";;;, application/json":                 false,
		"APPLICATION/JSON":                      false,
		"application/json, text/html":           true,
		"text/html;level=1, application/json":   true,
		"application/problem+json, */*;q=0.001": true,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/b/x", http.NoBody)
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		if got := wantsPage(r); got != page {
			t.Errorf("%q: a page is %t", accept, got)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/b/x/move", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	if wantsPage(r) {
		t.Error("who sends JSON gets a page")
	}
}

// Whatever a form holds: it is read or refused, and a start that is read is a time.
func FuzzForms(f *testing.F) {
	f.Add("version=1&start=2040-03-02T12%3A30", "application/x-www-form-urlencoded")
	f.Add("version=1&version=2", "application/x-www-form-urlencoded; charset=utf-8")
	f.Add("start=%zz;x", "application/x-www-form-urlencoded")
	f.Add("start=%ff%00", "application/x-www-form-urlencoded")
	f.Add(`{"start":"2040-10-28T02:30:00+01:00"}`, "application/json")
	f.Add("", "")
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body, kind string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/b/x/move", strings.NewReader(body))
		r.Header["Content-Type"] = []string{kind}
		in, err := readInput(r)
		if err != nil {
			if answer := problem(err); answer.Status >= http.StatusInternalServerError {
				t.Errorf("%q as %q: %v", body, kind, err)
			}
			return
		}
		at, err := inZone(in.form.Get("start"), zone)
		if err == nil && at.IsZero() || err != nil && !booking.Refused(err) {
			t.Errorf("%q is %s, %v", in.form, at, err)
		}
	})
}
