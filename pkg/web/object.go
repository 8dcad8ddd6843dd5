package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// ReadJSON returns the request's body, undecoded, or the problem that the request is answered
// with. An empty body needs no content type. JSON is UTF-8 (RFC 8259 §8.1); PATCH takes a merge
// patch (RFC 7396) as well.
func ReadJSON(w http.ResponseWriter, r *http.Request, most int64) ([]byte, *Problem) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, &Problem{Type: "/problems/body-too-large", Status: http.StatusRequestEntityTooLarge, Detail: "the body has too many bytes"}
	case err != nil: // the client has gone, or was too slow
		return nil, &Problem{Type: "/problems/unreadable-body", Status: http.StatusBadRequest, Detail: "the body could not be read to its end"}
	case len(body) > 0 && !isJSON(r):
		return nil, &Problem{
			Type: "/problems/unsupported-media-type", Status: http.StatusUnsupportedMediaType,
			Detail: "the body must be application/json in UTF-8, without a content encoding", Header: map[string]string{"Accept": "application/json"},
		}
	}
	return body, nil
}

func isJSON(r *http.Request) bool {
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := strings.ToLower(parameters["charset"])
	merge := kind == "application/merge-patch+json" && r.Method == http.MethodPatch
	return err == nil && (kind == "application/json" || merge) && (charset == "" || charset == "utf-8") &&
		r.Header.Get("Content-Encoding") == ""
}

// Object is one JSON object, read member by member so that every fault is found and named.
// encoding/json by itself would take unknown, doubled and differently cased names, and put
// U+FFFD for what is no text.
type Object struct {
	members map[string]json.RawMessage
	broken  bool // it is no object: faults holds why, and nothing else is to be said
	faults  []FieldError
}

// ReadObject reads body, which must be one object with no members but the known ones.
func ReadObject(body []byte, known ...string) *Object {
	o := &Object{members: map[string]json.RawMessage{}}
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
			o.Fault(shorten(name), "is not known")
		case o.members[name] != nil:
			o.Fault(name, "is there twice")
		default:
			o.members[name] = value
		}
	}
	return o
}

func (o *Object) breakOff(detail string) *Object {
	o.broken, o.faults = true, []FieldError{{Field: "body", Detail: detail}}
	return o
}

// shorten keeps a problem document small, whatever a client calls its fields.
func shorten(name string) string {
	if runes := []rune(name); len(runes) > 64 {
		return string(runes[:64]) + "…"
	}
	return name
}

// Fault notes what is wrong with a field, once.
func (o *Object) Fault(field, detail string) {
	if !o.broken && !slices.ContainsFunc(o.faults, func(f FieldError) bool { return f.Field == field }) {
		o.faults = append(o.faults, FieldError{Field: field, Detail: detail})
	}
}

// Faults are all that were noted; none: the object is as it should be.
func (o *Object) Faults() []FieldError { return o.faults }

// Has reports whether the member is there, be it null.
func (o *Object) Has(name string) bool { return o.members[name] != nil }

// Null reports whether the member is there and null.
func (o *Object) Null(name string) bool { return string(o.members[name]) == "null" }

// Require notes what is missing.
func (o *Object) Require(names ...string) {
	for _, name := range names {
		if !o.Has(name) {
			o.Fault(name, "is required")
		}
	}
}

// Text returns the string of that name; nil when it is absent or wrong.
func (o *Object) Text(name string) *string {
	raw := o.members[name]
	if raw == nil {
		return nil
	}
	s, fault := text(raw)
	if fault != "" {
		o.Fault(name, fault)
		return nil
	}
	return &s
}

func text(raw json.RawMessage) (s, fault string) {
	switch {
	case raw[0] != '"' || json.Unmarshal(raw, &s) != nil:
		return "", "must be a string"
	case hasLoneSurrogate(raw):
		return "", "must not contain half of a surrogate pair"
	case strings.ContainsRune(s, 0): // PostgreSQL takes none
		return "", "must not contain U+0000"
	}
	return s, ""
}

// Texts returns the list of strings of that name; nil when it is absent or wrong.
func (o *Object) Texts(name string) []string {
	raw := o.members[name]
	if raw == nil {
		return nil
	}
	var items []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &items) != nil {
		o.Fault(name, "must be a list of strings")
		return nil
	}
	list := make([]string, len(items))
	for i, item := range items {
		s, fault := text(item)
		if fault != "" {
			o.Fault(name, "must be a list of strings")
			return nil
		}
		list[i] = s
	}
	return list
}

// Integer returns the whole number of that name; nil when it is absent or wrong.
func (o *Object) Integer(name string) *int {
	raw := o.members[name]
	if raw == nil {
		return nil
	}
	var n int
	if raw[0] == 'n' || json.Unmarshal(raw, &n) != nil {
		o.Fault(name, "must be a whole number")
		return nil
	}
	return &n
}

// Boolean returns the truth value of that name; nil when it is absent or wrong.
func (o *Object) Boolean(name string) *bool {
	raw := o.members[name]
	if raw == nil {
		return nil
	}
	var b bool
	if raw[0] == 'n' || json.Unmarshal(raw, &b) != nil {
		o.Fault(name, "must be true or false")
		return nil
	}
	return &b
}

// Instant returns the time of that name (RFC 3339, with an offset); nil when it is absent or
// wrong.
func (o *Object) Instant(name string) *time.Time {
	s := o.Text(name)
	if s == nil {
		return nil
	}
	t, err := time.Parse(time.RFC3339, *s)
	if err != nil {
		o.Fault(name, "must be a time as in RFC 3339, such as 2026-03-29T01:30:00Z")
		return nil
	}
	return &t
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
