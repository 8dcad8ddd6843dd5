package web

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// ReadBody returns the request's body to its end; its size is what [http.MaxBytesReader] has
// left of it. The error is a [*Problem].
func ReadBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	large, isLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case isLarge:
		return nil, FieldProblem(http.StatusRequestEntityTooLarge, "body-too-large", "body", fmt.Sprintf("must have at most %d bytes", large.Limit))
	case err != nil: // the client has gone, or was too slow
		return nil, &Problem{Type: "/problems/unreadable-body", Status: http.StatusBadRequest, Detail: "the body could not be read to its end"}
	}
	return body, nil
}

// ReadJSON is [ReadBody] of a request whose body is JSON, undecoded, or empty, which needs no
// content type.
func ReadJSON(r *http.Request) ([]byte, error) {
	body, err := ReadBody(r)
	if err == nil && len(body) > 0 && !IsJSON(r) {
		p := FieldProblem(http.StatusUnsupportedMediaType, "unsupported-media-type", "Content-Type", "must be application/json in UTF-8, without a content encoding")
		p.Header = map[string]string{"Accept": "application/json"}
		return nil, p
	}
	return body, err
}

// IsJSON reports whether the request says that its body is JSON, which is UTF-8 (RFC 8259 §8.1).
// PATCH takes a merge patch (RFC 7396) as well.
func IsJSON(r *http.Request) bool {
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := strings.ToLower(parameters["charset"])
	merge := kind == "application/merge-patch+json" && r.Method == http.MethodPatch
	return err == nil && (kind == "application/json" || merge) && (charset == "" || charset == "utf-8") &&
		r.Header.Get("Content-Encoding") == ""
}
