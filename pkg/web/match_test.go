package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/pkg/web"
)

// Whatever If-Match holds: it never holds for a version that it does not spell out, unless it
// is a star.
func FuzzB136IfMatch(f *testing.F) {
	for _, s := range []string{`"1"`, `W/"1"`, `*`, `"1", "2"`, ` , "1",,`, `"1`, `1`, `""`, `*, "1"`, "\"\x80\"", `"W/"1""`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPatch, "/", http.NoBody)
		r.Header["If-Match"] = []string{value}
		m, fault := web.ReadMatch(r)
		if fault != "" {
			if m.Holds("1") {
				t.Errorf("%q is refused and holds", value)
			}
			return
		}
		if m.Holds("1") && strings.Trim(value, " \t,") != "*" && !strings.Contains(value, `"1"`) {
			t.Errorf("%q holds for version 1", value)
		}
	})
}
