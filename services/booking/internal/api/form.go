package api

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slotwise/slotwise/pkg/web"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// input is what a customer sent: a page's form, or JSON.
type input struct {
	form url.Values // nil: JSON
	body []byte
}

var errNotForm = web.FieldProblem(http.StatusUnsupportedMediaType, "unsupported-media-type", "Content-Type",
	"must be application/x-www-form-urlencoded, or application/json in UTF-8, without a content encoding")

// readInput reads a form whose fields are version and start, each at most once, or JSON.
func readInput(r *http.Request) (input, error) {
	body, err := web.ReadBody(r)
	switch kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); {
	case err != nil:
		return input{}, err
	case len(body) == 0 && kind == "", web.IsJSON(r):
		return input{body: body}, nil
	case kind != "application/x-www-form-urlencoded" || r.Header.Get("Content-Encoding") != "":
		return input{}, errNotForm
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return input{}, &booking.InvalidError{Faults: []booking.Fault{{Field: "body", Detail: "must be a form's fields"}}}
	}
	var o web.Object
	for name, values := range form {
		switch {
		case name != "version" && name != "start":
			o.Fault(name, "is not known")
		case len(values) > 1:
			o.Fault(name, "is there twice")
		case !utf8.ValidString(values[0]):
			o.Fault(name, "must be UTF-8")
		}
	}
	return input{form: form}, faultsOf(&o)
}

// match is which version the customer means: the one that the form was made for, or If-Match.
func (in input) match(r *http.Request) (web.Match, error) {
	switch {
	case in.form == nil:
		return readMatch(r)
	case in.form.Get("version") == "":
		return web.Match{}, errNoMatch
	}
	return web.MatchOnly(in.form.Get("version")), nil
}

// startBy is the start that the customer asks for. A form's field is local in the resource's
// zone, unless it names its offset.
func (a *api) startBy(v *visit, in input) (time.Time, error) {
	if in.form == nil {
		return decodeStart(in.body)
	}
	text := in.form.Get("start")
	if t, fault := web.ParseInstant(text); fault == "" {
		return t, nil
	}
	view, err := a.bookings.GetFor(v.Context(), v.Customer, v.Booking)
	if err != nil {
		return time.Time{}, err
	}
	return inZone(text, location(view.Resource.Zone))
}

// twiceError says that a local time comes twice, because clocks go back.
type twiceError struct{ times []time.Time }

func (e *twiceError) Error() string {
	return fmt.Sprintf("a local time comes %d times", len(e.times))
}

// Unwrap makes it a fault of the field, as programs are told it.
func (e *twiceError) Unwrap() error {
	return invalidStart("comes twice on that day: name its offset from UTC too, as in " + e.times[0].Format(time.RFC3339))
}

func invalidStart(detail string) error {
	return &booking.InvalidError{Faults: []booking.Fault{{Field: "start", Detail: detail}}}
}

// inZone reads a local time as a form's datetime-local has it. Where clocks go forward it may be
// none, where they go back it may be two.
func inZone(text string, zone *time.Location) (time.Time, error) {
	wall, err := time.Parse("2006-01-02T15:04", text)
	if err != nil {
		wall, err = time.Parse("2006-01-02T15:04:05", text)
	}
	if err != nil {
		return time.Time{}, invalidStart("must be a day and a time, such as 2026-03-29T15:30")
	}
	var found []time.Time
	for _, around := range []time.Duration{-24 * time.Hour, 24 * time.Hour} { // clocks change once a day at most
		_, offset := wall.Add(around).In(zone).Zone()
		t := wall.Add(-time.Duration(offset) * time.Second).In(zone)
		sameWall := t.Format(time.DateTime) == wall.Format(time.DateTime)
		if sameWall && !slices.ContainsFunc(found, t.Equal) {
			found = append(found, t)
		}
	}
	switch len(found) {
	case 0:
		return time.Time{}, invalidStart("does not come on that day, because clocks go forward")
	case 1:
		return found[0], nil
	}
	return time.Time{}, &twiceError{found}
}

// wantsPage reports whether the answer is to be a page: unless JSON was sent, or is what the
// client rather takes.
func wantsPage(r *http.Request) bool {
	page, pageRank := accepts(r, "text/html")
	data, dataRank := accepts(r, "application/json")
	return !web.IsJSON(r) && (page > data || page == data && pageRank >= dataRank)
}

// accepts returns how much the client wants answers of a kind, and how exactly it says so
// (RFC 9110 §12.5.1).
func accepts(r *http.Request, kind string) (quality float64, rank int) {
	header := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(header) == "" {
		return 1, 0
	}
	major, _, _ := strings.Cut(kind, "/")
	ranks := []string{"*/*", major + "/*", kind}
	rank = -1
	for text := range strings.SplitSeq(header, ",") {
		media, parameters, err := mime.ParseMediaType(text)
		at := slices.Index(ranks, media)
		if err != nil || at < rank || at < 0 {
			continue
		}
		weight := 1.0
		if q, ok := parameters["q"]; ok {
			if weight, err = strconv.ParseFloat(q, 64); err != nil {
				weight = 0
			}
		}
		quality, rank = weight, at
	}
	return quality, rank
}
