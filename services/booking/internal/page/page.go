// Package page writes the pages that customers see behind the links in their mails: plain HTML
// without a script, readable on paper and by a screen reader. Nicer ones may come; what they may
// load and send is bounded by [Policy].
//
// What people typed is only ever text here: html/template escapes it for its place.
package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"time"

	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// Page is one page. Without a booking it is a notice only.
type Page struct {
	Notice  string // what has just happened, or why nothing did; empty: nothing
	Booking *Booking
}

// Booking is a booking as its customer sees it, with forms to move and to cancel it unless it is
// cancelled or over.
type Booking struct {
	booking.Booking
	Resource booking.Resource
	Zone     *time.Location // of the resource
	Over     bool
	Forms    string // where the forms' paths begin, seen from the page's own path: …/move, …/cancel

	// Choices are the times that were meant by the one that the customer has typed, when clocks
	// go back and it comes twice. The form then asks which.
	Choices []time.Time
}

// Render returns the page's bytes.
func (p Page) Render() ([]byte, error) {
	var b bytes.Buffer
	if err := layout.Execute(&b, struct {
		Page
		Style template.CSS
	}{p, template.CSS(style)}); err != nil { //nolint:gosec // our own
		return nil, fmt.Errorf("lay out page: %w", err)
	}
	return b.Bytes(), nil
}

var (
	//go:embed page.html.tmpl
	layoutText string
	//go:embed page.css
	style string

	layout = template.Must(template.New("page").Parse(layoutText))
)

// Policy is the Content-Security-Policy of every page: its own style and forms to ourselves,
// nothing else, in nobody's frame.
var Policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

// What is what is booked.
func (b *Booking) What() string {
	if b.Resource.Name != "" {
		return b.Resource.Name
	}
	return b.Resource.ID
}

// When tells day and time in the resource's zone, and below it the zone. Where clocks change in
// between, each time has its own offset from UTC.
func (b *Booking) When() []string {
	const day, clock = "Monday, 2 January 2006, ", "15:04"
	start, end := b.Start.In(b.Zone), b.End.In(b.Zone)
	from, to := start.Format(day+clock), end.Format(clock)
	if start.Format(time.DateOnly) != end.Format(time.DateOnly) {
		to = end.Format(day + clock)
	}
	if offset(start) != offset(end) {
		return []string{fmt.Sprintf("%s (%s) to %s (%s)", from, offset(start), to, offset(end)), b.Zone.String()}
	}
	return []string{from + " to " + to, fmt.Sprintf("%s (%s)", b.Zone, offset(start))}
}

// Is says how the booking stands, in a word.
func (b *Booking) Is() string {
	if b.Status == booking.Confirmed && b.Over {
		return "over"
	}
	return string(b.Status)
}

// Open reports whether its customer may change it.
func (b *Booking) Open() bool { return b.Status == booking.Confirmed && !b.Over }

// LocalStart is the start as the form's field has it: local, without an offset.
func (b *Booking) LocalStart() string {
	start := b.Start.In(b.Zone)
	if start.Second() != 0 {
		return start.Format("2006-01-02T15:04:05")
	}
	return start.Format("2006-01-02T15:04")
}

// Choice is one of the times that a typed one may mean.
type Choice struct{ Value, Label string }

// Offered are the choices as the form has them.
func (b *Booking) Offered() []Choice {
	all := make([]Choice, 0, len(b.Choices))
	for _, t := range b.Choices {
		t = t.In(b.Zone)
		all = append(all, Choice{t.Format(time.RFC3339), t.Format("Monday, 2 January 2006, 15:04") + " (" + offset(t) + ")"})
	}
	return all
}

func offset(t time.Time) string { return "UTC" + t.Format("-07:00") }
