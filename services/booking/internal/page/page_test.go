package page_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/services/booking/internal/booking"
	"github.com/slotwise/slotwise/services/booking/internal/page"
)

var update = flag.Bool("update", false, "write the golden files")

func shown(t *testing.T, zone string) *page.Booking {
	t.Helper()
	in, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 12, 3, 13, 0, 0, 0, time.UTC)
	return &page.Booking{
		Booking: booking.Booking{
			ID: "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f", Resource: "room-7", Status: booking.Confirmed, Version: 3, Seats: 2,
			Start: start, End: start.Add(time.Hour),
			Contact: booking.Contact{Customer: "01928c7e-0000-7abc-8def-112233445566", Name: "Zoë Müller", Address: "zoe@customers.example", Note: "We need a projector.\nThank you!"},
		},
		Resource: booking.Resource{ID: "room-7", Name: "Meeting room 7", Zone: zone, HostAddress: "host@rooms.example"},
		Zone:     in, Forms: "AQGS",
	}
}

func render(t *testing.T, p page.Page) []byte {
	t.Helper()
	body, err := p.Render()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// The golden files are read in review: what a customer sees.
func TestGolden(t *testing.T) {
	t.Parallel()
	cancelled, over, twice := shown(t, "Europe/Berlin"), shown(t, "Europe/Berlin"), shown(t, "Europe/Berlin")
	cancelled.Status, cancelled.Over, over.Over = booking.Cancelled, true, true
	back := time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC)
	twice.Choices, twice.Forms = []time.Time{back, back.Add(time.Hour)}, "../AQGS"
	for name, p := range map[string]page.Page{
		"confirmed": {Booking: shown(t, "Europe/Berlin")},
		"cancelled": {Notice: "Nothing was changed.", Booking: cancelled},
		"over":      {Booking: over},
		"twice":     {Notice: "Which one?", Booking: twice},
		"dead":      {Notice: "This link does not work."},
	} {
		got := render(t, p)
		file := filepath.Join("testdata", name+".html")
		if *update {
			if err := os.WriteFile(file, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("the page differs from %s (write it with -update):\n%s", file, got)
		}
	}
}

var style = regexp.MustCompile(`(?s)<style>(.*)</style>`)

// A browser applies the style only if it is the one whose hash the policy names, and nothing on
// the page asks for more than the policy allows.
func TestPolicyFitsThePage(t *testing.T) {
	t.Parallel()
	body := string(render(t, page.Page{Notice: "x", Booking: shown(t, "Europe/Berlin")}))
	sum := sha256.Sum256([]byte(style.FindStringSubmatch(body)[1]))
	if hash := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(page.Policy, hash) {
		t.Errorf("the style has the hash %s, the policy is %s", hash, page.Policy)
	}
	for _, wanted := range []string{"default-src 'none'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"} {
		if !strings.Contains(page.Policy, wanted) {
			t.Errorf("the policy lacks %s", wanted)
		}
	}
	for _, never := range []string{"<script", "<img", "<link", "<a ", "<iframe", "style=", " on", "http:", "https:", "zoe@", "host@"} {
		if strings.Contains(strings.ToLower(body), never) {
			t.Errorf("the page has %q", never)
		}
	}
}

// B61, B83: what people typed is text, whatever it looks like.
func TestB83TypedTextIsNoMarkup(t *testing.T) {
	t.Parallel()
	const bad = `</dd><script>alert(1)</script><a href="javascript:x">'"&`
	b := shown(t, "Europe/Berlin")
	b.Contact.Name, b.Contact.Note, b.Resource.Name = bad, "x\n"+bad, bad
	body := string(render(t, page.Page{Notice: bad, Booking: b}))
	if strings.Contains(body, "<script") || strings.Contains(body, "<a ") || strings.Count(body, "&lt;script&gt;") != 4 {
		t.Errorf("the page has\n%s", body)
	}
}

func TestB107TimesAreInTheResourcesZone(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		zone  string
		start time.Time
		want  []string // on the page
	}{
		"winter":        {"Europe/Paris", time.Date(2026, 12, 3, 13, 0, 0, 0, time.UTC), []string{"Thursday, 3 December 2026, 14:00 to 15:00<br>Europe/Paris (UTC&#43;01:00)", `value="2026-12-03T14:00"`}},
		"quarters":      {"Asia/Kathmandu", time.Date(2026, 12, 3, 13, 0, 7, 0, time.UTC), []string{"18:45 to 19:45", `value="2026-12-03T18:45:07"`}},
		"over midnight": {"Europe/Paris", time.Date(2026, 12, 3, 22, 30, 0, 0, time.UTC), []string{"Thursday, 3 December 2026, 23:30 to Friday, 4 December 2026, 00:30"}},
		"clocks change": {"Europe/Berlin", time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC), []string{"02:30 (UTC&#43;02:00) to 02:30 (UTC&#43;01:00)<br>Europe/Berlin<"}},
	} {
		b := shown(t, tt.zone)
		b.Start, b.End = tt.start, tt.start.Add(time.Hour)
		body := string(render(t, page.Page{Booking: b}))
		for _, want := range tt.want {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %s in\n%s", name, want, body)
			}
		}
	}
}
