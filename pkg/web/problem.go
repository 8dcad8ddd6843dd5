package web

import (
	"encoding/json"
	"net/http"
)

// Problem is a problem document (RFC 9457). Title and Detail are for people; programs go by
// Type, Status and the names of Errors.
type Problem struct { //nolint:errname // RFC 9457 calls it so
	Type   string       `json:"type"` // /problems/<slug>, or about:blank
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail,omitempty"`
	Errors []FieldError `json:"errors,omitempty"` // what is wrong with which field

	Header map[string]string `json:"-"` // of the answer, such as Retry-After
}

// FieldError is one fault of one field of the request.
type FieldError struct {
	Field  string `json:"field"` // the JSON name, or the header's
	Detail string `json:"detail"`
}

// FieldProblem is what is refused because of one field or header.
func FieldProblem(status int, slug, field, detail string) *Problem {
	return &Problem{Type: "/problems/" + slug, Status: status, Detail: detail, Errors: []FieldError{{Field: field, Detail: detail}}}
}

// Error makes a request that HTTP itself refuses an error.
func (p *Problem) Error() string { return p.Type + ": " + p.Detail }

// Write answers with p. Missing type and title are filled in from the status.
func (p Problem) Write(w http.ResponseWriter) {
	body := p.Encode()
	w.Header().Set("Content-Type", "application/problem+json")
	for name, value := range p.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(p.Status)
	w.Write(body) //nolint:errcheck // the client has gone; nobody to tell
}

// Encode returns the document's bytes.
func (p Problem) Encode() []byte {
	if p.Type == "" {
		p.Type = "about:blank"
	}
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	body, err := json.Marshal(p)
	if err != nil { // strings and integers always encode
		return []byte(`{"type":"about:blank","title":"Internal Server Error","status":500}`)
	}
	return append(body, '\n')
}
