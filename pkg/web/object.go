package web

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

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
			o.Fault(name, "is not known")
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

// mostFaults are named in one answer: who mends these is told the rest. A body has room for
// ten thousand.
const mostFaults = 32

// longestName keeps a problem document small, whatever a client calls its fields.
const longestName = 64

// Fault notes what is wrong with a field, once. The name is cut, and made UTF-8, where need be.
func (o *Object) Fault(field, detail string) {
	field = strings.ToValidUTF8(field, "\ufffd")
	if runes := []rune(field); len(runes) > longestName {
		field = string(runes[:longestName]) + "…"
	}
	if !o.broken && len(o.faults) < mostFaults && !slices.ContainsFunc(o.faults, func(f FieldError) bool { return f.Field == field }) {
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

// Optional is [Object.Text] where null means empty.
func (o *Object) Optional(name string) *string {
	if o.Null(name) {
		return new(string)
	}
	return o.Text(name)
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

// Instant returns the time of that name, as [ParseInstant] reads it; nil when it is absent or
// wrong.
func (o *Object) Instant(name string) *time.Time {
	s := o.Text(name)
	if s == nil {
		return nil
	}
	t, fault := ParseInstant(*s)
	if fault != "" {
		o.Fault(name, fault)
		return nil
	}
	return &t
}
