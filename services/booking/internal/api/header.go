package api

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/pkg/apikey"
	"github.com/slotwise/slotwise/pkg/web"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

var keyForm = regexp.MustCompile(`^[!-~]([ -~]{0,253}[!-~])?$`)

// readKey reads the Idempotency-Key, if there is one. What was asked for is method, path and
// body, byte for byte. The name is the API key's own; what the last release has kept for nobody
// may be given to a key that is for all resources.
func readKey(r *http.Request, body []byte) (app.Key, error) {
	values := r.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return app.Key{}, nil
	}
	if len(values) > 1 || !keyForm.MatchString(values[0]) {
		return app.Key{}, &booking.InvalidError{Faults: []booking.Fault{
			{Field: "Idempotency-Key", Detail: "must be there once, with 1 to 255 visible ASCII characters"},
		}}
	}
	asked := sha256.New()
	fmt.Fprintf(asked, "%s %s\n%s", r.Method, r.URL.Path, body)
	caller := apikey.From(r.Context())
	return app.Key{Name: values[0], Caller: caller.Key, Nobodys: caller.All(), Fingerprint: asked.Sum(nil)}, nil
}

// readMatch reads If-Match, which every change of a booking needs: else the second of two
// writers would win without knowing.
func readMatch(r *http.Request) (web.Match, error) {
	match, fault := web.ReadMatch(r)
	switch {
	case fault != "":
		return web.Match{}, &booking.InvalidError{Faults: []booking.Fault{{Field: "If-Match", Detail: fault}}}
	case !match.Given:
		return web.Match{}, errNoMatch
	}
	return match, nil
}

// holds reports of versions whether they are what the client means: a booking's entity tag is its
// version.
func holds(m web.Match) func(version int64) bool {
	return func(version int64) bool { return m.Holds(strconv.FormatInt(version, 10)) }
}

// traceForm is a traceparent as W3C Trace Context §3.2.2 has it. Ids of zeros and version ff are
// none.
var traceForm = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)

// readTrace returns the request's traceparent, or nothing when it is not well formed.
func readTrace(r *http.Request) string {
	values := r.Header.Values("Traceparent")
	if len(values) != 1 {
		return ""
	}
	parts := traceForm.FindStringSubmatch(values[0])
	if parts == nil || parts[1] == "ff" || strings.Trim(parts[2], "0") == "" || strings.Trim(parts[3], "0") == "" {
		return ""
	}
	return values[0]
}
