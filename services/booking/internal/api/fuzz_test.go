package api

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// Whatever a body holds: it is decoded or refused with a fault, and what is decoded is text
// that PostgreSQL, a header and JSON can carry.
func FuzzB17Bodies(f *testing.F) {
	for _, s := range []string{
		`{"resource":"room-7","start":"2040-03-01T10:00:00+01:00","seats":1,"name":"Ada","address":"a@x.example","locale":"en","note":"x"}`,
		`{"name":"A\u0000B"}`, `{"name":"\ud800"}`, `{"name":"\ud83d\ude00"}`, `{"note":"\udc00\ud800"}`, `{"name":"a","name":"b"}`, `{}`, `[]`, ` `, `{"a":`, "\xff", `{"note":null}`,
		`{"start":"2040-03-01T10:00:00"}`, `{"seats":1e9}`, `{"name":"\\ud800"}`, `{"n\u0061me":"x"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		request, err := decodeRequest(body)
		if err == nil {
			for _, s := range []string{request.Name, request.Note, request.Locale, request.Address, request.Resource} {
				if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
					t.Errorf("%q got through", s)
				}
			}
			if strings.ContainsAny(request.Name+request.Address, "\r\n") {
				t.Errorf("a line break got through: %+v", request)
			}
		} else if !booking.Refused(err) {
			t.Errorf("decode: %v", err)
		}
		if _, err := decodeEdit(body); err != nil && !booking.Refused(err) {
			t.Errorf("decode edit: %v", err)
		}
		if _, err := decodeStart(body); err != nil && !booking.Refused(err) {
			t.Errorf("decode start: %v", err)
		}
		if err := decodeNothing(body); err != nil && !booking.Refused(err) {
			t.Errorf("decode nothing: %v", err)
		}
	})
}
