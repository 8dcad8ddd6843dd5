package endpoint

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/pkg/web"
)

// settingsFields are the members of a request that makes or changes an endpoint.
var settingsFields = []string{"url", "description", "owner", "event_types", "resources", "concurrency", "rate"}

func invalid(faults []web.FieldError) error {
	if len(faults) > 0 {
		return &InvalidError{faults}
	}
	return nil
}

// decodeNew reads the settings of a new endpoint, the faults of their form alone.
func decodeNew(body []byte) (Settings, error) {
	o := web.ReadObject(body, settingsFields...)
	o.Require("url")
	s := Settings{Concurrency: DefaultConcurrency}
	assign(o, &s)
	return s, invalid(o.Faults())
}

// decodeChange reads a merge patch: what is absent stays, null takes away.
func decodeChange(body []byte) (Change, error) {
	o := web.ReadObject(body, append(slices.Clone(settingsFields), "enabled")...)
	assign(o, &Settings{}) // for the faults
	c := Change{Enabled: o.Boolean("enabled"), Set: func(s *Settings) { assign(web.ReadObject(body, append(slices.Clone(settingsFields), "enabled")...), s) }}
	return c, invalid(o.Faults())
}

// assign writes what o has into s. Null stands for what is so by default, where there is such.
func assign(o *web.Object, s *Settings) {
	if text := o.Text("url"); text != nil {
		s.URL = *text
	}
	assignText(o, "description", &s.Description)
	assignText(o, "owner", &s.Owner)
	assignTexts(o, "event_types", &s.EventTypes)
	assignTexts(o, "resources", &s.Resources)
	if n := o.Integer("concurrency"); n != nil {
		s.Concurrency = *n
	}
	if o.Null("rate") {
		s.Rate = nil
	} else if n := o.Integer("rate"); n != nil {
		s.Rate = n
	}
}

func assignText(o *web.Object, name string, to *string) {
	if o.Null(name) {
		*to = ""
	} else if text := o.Text(name); text != nil {
		*to = *text
	}
}

func assignTexts(o *web.Object, name string, to *[]string) {
	if o.Null(name) {
		*to = nil
	} else if list := o.Texts(name); list != nil {
		*to = list
	}
}

// maxOverlap is how long an old secret may sign beside a new one.
const maxOverlap = 30 * 24 * time.Hour

func decodeOverlap(body []byte) (time.Duration, error) {
	if len(body) == 0 {
		return DefaultOverlap, nil
	}
	o := web.ReadObject(body, "overlap_seconds")
	overlap := DefaultOverlap
	if n := o.Integer("overlap_seconds"); n != nil {
		if *n < 0 || *n > int(maxOverlap/time.Second) {
			o.Fault("overlap_seconds", fmt.Sprintf("must be 0 to %d", int(maxOverlap/time.Second)))
		} else {
			overlap = time.Duration(*n) * time.Second
		}
	}
	return overlap, invalid(o.Faults())
}

func decodeSince(body []byte) (time.Time, error) {
	o := web.ReadObject(body, "since")
	o.Require("since")
	since := o.Instant("since")
	if since == nil {
		return time.Time{}, invalid(o.Faults())
	}
	return *since, invalid(o.Faults())
}

// decodeNothing: a request that needs no body may have an empty object.
func decodeNothing(body []byte) error {
	if len(body) == 0 {
		return nil
	}
	return invalid(web.ReadObject(body).Faults())
}

// query is what stands behind the question mark.
type query struct {
	values url.Values
	faults []web.FieldError
}

// readQuery reads the query, which must have no parameters but the known ones, each once.
func readQuery(r *http.Request, known ...string) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{values: values}
	if err != nil {
		q.fault("query", "can't be read")
	}
	for name, all := range values {
		switch {
		case !slices.Contains(known, name):
			q.fault(name, "is not known")
		case len(all) > 1:
			q.fault(name, "is there twice")
		case strings.ContainsRune(all[0], 0) || strings.ToValidUTF8(all[0], "") != all[0]:
			q.fault(name, "must be UTF-8 without U+0000")
		}
	}
	return q
}

func (q *query) fault(field, detail string) {
	if runes := []rune(strings.ToValidUTF8(field, "?")); len(runes) > 64 {
		field = string(runes[:64]) + "…"
	}
	q.faults = append(q.faults, web.FieldError{Field: field, Detail: detail})
}

func (q *query) err() error {
	slices.SortFunc(q.faults, func(a, b web.FieldError) int { return strings.Compare(a.Field, b.Field) })
	return invalid(q.faults)
}

func (q *query) text(name string) string { return q.values.Get(name) }

const (
	pageSize = 100
	maxPage  = 1000
)

func (q *query) limit() int {
	text := q.text("limit")
	if text == "" {
		return pageSize
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPage {
		q.fault("limit", fmt.Sprintf("must be 1 to %d", maxPage))
		return pageSize
	}
	return n
}

// States are those of a delivery.
var States = []string{"planned", "handed", "sent", "refused", "unknown", "held", "skipped"}

func (q *query) states() []string {
	text := q.text("state")
	if text == "" {
		return nil
	}
	states := strings.Split(text, ",")
	if slices.ContainsFunc(states, func(s string) bool { return !slices.Contains(States, s) }) {
		q.fault("state", "must be one or more of "+strings.Join(States, ", ")+", separated by commas")
	}
	return states
}

func (q *query) instant(name string) *time.Time {
	text := q.text(name)
	if text == "" {
		return nil
	}
	t, fault := web.ParseInstant(text)
	if fault != "" {
		q.fault(name, fault)
		return nil
	}
	return &t
}
