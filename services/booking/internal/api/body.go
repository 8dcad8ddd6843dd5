package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// maxBody is the longest body that is read: 64 KiB.
const maxBody = 64 << 10

// readBody returns the request's JSON, undecoded. An empty body needs no content type.
func readBody(r *http.Request) ([]byte, error) {
	body, err := readAll(r)
	if err == nil && len(body) > 0 && !isJSON(r) {
		return nil, errNotJSON
	}
	return body, err
}

func readAll(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, errTooLarge
	case err != nil:
		return nil, errUnreadable // the client has gone, or was too slow
	}
	return body, nil
}

// isJSON: JSON is UTF-8 (RFC 8259 §8.1). A merge patch (RFC 7396) is what PATCH takes.
func isJSON(r *http.Request) bool {
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := strings.ToLower(parameters["charset"])
	merge := kind == "application/merge-patch+json" && r.Method == http.MethodPatch
	return err == nil && (kind == "application/json" || merge) && (charset == "" || charset == "utf-8") &&
		r.Header.Get("Content-Encoding") == ""
}

// object is one JSON object, read member by member so that every fault is found and named.
// encoding/json by itself would take unknown, doubled and differently cased names, and put
// U+FFFD for what is no text.
type object struct {
	members map[string]json.RawMessage
	broken  bool // it is no object: faults holds why, and nothing else is to be said
	faults  []booking.Fault
}

// readObject reads body, which must be one object with no members but the known ones.
func readObject(body []byte, known ...string) *object {
	o := &object{members: map[string]json.RawMessage{}}
	switch {
	case !utf8.Valid(body):
		return o.breakOff("must be UTF-8")
	case !json.Valid(body) || bytes.TrimLeft(body, " \t\r\n")[0] != '{':
		return o.breakOff("must be one JSON object")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.Token() //nolint:errcheck // the opening brace: body is valid
	for decoder.More() {
		var value json.RawMessage
		token, err := decoder.Token()
		name, ok := token.(string)
		if err != nil || !ok || decoder.Decode(&value) != nil {
			return o.breakOff("must be one JSON object")
		}
		switch {
		case !slices.Contains(known, name):
			o.fault(shorten(name), "is not known")
		case o.members[name] != nil:
			o.fault(name, "is there twice")
		default:
			o.members[name] = value
		}
	}
	return o
}

func (o *object) breakOff(detail string) *object {
	o.broken, o.faults = true, []booking.Fault{{Field: "body", Detail: detail}}
	return o
}

// shorten keeps a problem document small, whatever a client calls its fields.
func shorten(name string) string {
	if runes := []rune(name); len(runes) > 64 {
		return string(runes[:64]) + "…"
	}
	return name
}

// mostFaults are named in one answer: who mends these is told the rest. A body has room for
// ten thousand.
const mostFaults = 32

// fault notes what is wrong with a field, once.
func (o *object) fault(field, detail string) {
	if !o.broken && len(o.faults) < mostFaults && !slices.ContainsFunc(o.faults, func(f booking.Fault) bool { return f.Field == field }) {
		o.faults = append(o.faults, booking.Fault{Field: field, Detail: detail})
	}
}

// err returns the faults that reading found, and then those of the domain in fields that were
// read without one.
func (o *object) err(domain []booking.Fault) error {
	for _, f := range domain {
		o.fault(f.Field, f.Detail)
	}
	if len(o.faults) > 0 {
		return &booking.InvalidError{Faults: o.faults}
	}
	return nil
}

// require notes what is missing.
func (o *object) require(names ...string) {
	for _, name := range names {
		if o.members[name] == nil {
			o.fault(name, "is required")
		}
	}
}

// text returns the string of that name; nil when it is absent or wrong.
func (o *object) text(name string) *string {
	raw := o.members[name]
	var s string
	switch {
	case raw == nil:
		return nil
	case raw[0] != '"' || json.Unmarshal(raw, &s) != nil:
		o.fault(name, "must be a string")
		return nil
	case hasLoneSurrogate(raw):
		o.fault(name, "must not contain half of a surrogate pair")
		return nil
	}
	return &s
}

// optional is [object.text] where null means empty.
func (o *object) optional(name string) *string {
	if string(o.members[name]) == "null" {
		return new(string)
	}
	return o.text(name)
}

// integer returns the whole number of that name; nil when it is absent or wrong.
func (o *object) integer(name string) *int {
	raw := o.members[name]
	if raw == nil {
		return nil
	}
	var n int
	if raw[0] == 'n' || json.Unmarshal(raw, &n) != nil {
		o.fault(name, "must be a whole number")
		return nil
	}
	return &n
}

// timeForm is RFC 3339 §5.6 where time.Parse takes more: a comma, offsets of a day or of 60 minutes.
var timeForm = regexp.MustCompile(`T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// instant returns the time of that name; nil when it is absent or wrong. Without an offset
// from UTC a time is none: where clocks go back it happens twice, where they go forward never.
func (o *object) instant(name string) *time.Time {
	s := o.text(name)
	if s == nil {
		return nil
	}
	t, fault := parseInstant(*s)
	if fault != "" {
		o.fault(name, fault)
		return nil
	}
	return &t
}

func parseInstant(s string) (t time.Time, fault string) {
	t, err := time.Parse(time.RFC3339, s)
	if err == nil && timeForm.MatchString(s) {
		return t, ""
	}
	if _, local := time.Parse("2006-01-02T15:04:05", s); local == nil {
		return time.Time{}, "must have an offset from UTC, such as 2026-03-29T03:30:00+02:00 or 2026-03-29T01:30:00Z"
	}
	return time.Time{}, "must be a time as in RFC 3339, such as 2026-03-29T03:30:00+02:00"
}

// hasLoneSurrogate reports whether a JSON string has an escape \ud800 to \udfff that is no
// half of a pair.
func hasLoneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		switch unit := utf16Unit(raw, i); {
		case unit >= 0xd800 && unit < 0xdc00:
			low := utf16Unit(raw, i+6)
			if i+5 >= len(raw) || raw[i+5] != '\\' || low < 0xdc00 || low > 0xdfff {
				return true
			}
			i += 10
		case unit >= 0xdc00 && unit <= 0xdfff:
			return true
		}
	}
	return false
}

// utf16Unit returns the four hexadecimal digits after a u at raw[at:]; 0 when there is none.
func utf16Unit(raw []byte, at int) int {
	if at+4 >= len(raw) || raw[at] != 'u' {
		return 0
	}
	unit := 0
	for _, digit := range raw[at+1 : at+5] {
		value := strings.IndexByte("0123456789abcdef", digit|0x20)
		if value < 0 {
			return 0
		}
		unit = unit<<4 | value
	}
	return unit
}
