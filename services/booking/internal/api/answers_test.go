package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Every kind of answer, byte for byte, and in the shape that openapi.yaml promises.
func TestAnswers(t *testing.T) {
	t.Parallel()
	d := open(t)
	spec := readContract(t)
	check := func(t *testing.T, name, method, path string, r reply) {
		t.Helper()
		r.golden(t, name)
		spec.Check(t, method, path, r.status, r.header, r.body)
	}

	booked := d.book(nil, "Idempotency-Key", "k-1")
	id := booked.booking(t).ID
	if location := booked.header.Get("Location"); location != "/v1/bookings/"+id {
		t.Errorf("Location = %q", location)
	}
	at := "/v1/bookings/" + id
	one := "/v1/bookings/{id}"
	check(t, "booked", "post", "/v1/bookings", booked)
	check(t, "booked", "post", "/v1/bookings", d.book(nil, "Idempotency-Key", "k-1")) // again
	check(t, "idempotency key reused", "post", "/v1/bookings", d.book(map[string]any{"note": "x"}, "Idempotency-Key", "k-1"))
	check(t, "read", "get", one, d.do(http.MethodGet, at, ""))
	check(t, "slot taken", "post", "/v1/bookings", d.book(nil))
	check(t, "precondition required", "patch", one, d.do(http.MethodPatch, at, `{"note":"x"}`))
	check(t, "version mismatch", "patch", one, d.do(http.MethodPatch, at, `{"note":"x"}`, "If-Match", `"7"`))
	check(t, "edited", "patch", one, d.do(http.MethodPatch, at, `{"note":"two\nlines","address":"Bob@x.example"}`, "If-Match", etag(1)))
	check(t, "rescheduled", "post", one+"/reschedule", d.do(http.MethodPost, at+"/reschedule", `{"start":"2040-03-25T03:00:00+02:00"}`, "If-Match", etag(2)))
	check(t, "cancelled", "post", one+"/cancel", d.do(http.MethodPost, at+"/cancel", "", "If-Match", etag(3), "Content-Type", ""))
	check(t, "booking cancelled", "post", one+"/reschedule", d.do(http.MethodPost, at+"/reschedule", `{"start":"2040-03-26T03:00:00Z"}`, "If-Match", etag(4)))
	check(t, "booking not found", "get", one, d.do(http.MethodGet, "/v1/bookings/"+strings.Repeat("0", 8)+"-0000-0000-0000-000000000000", ""))
	check(t, "invalid request", "post", "/v1/bookings", d.do(http.MethodPost, "/v1/bookings",
		`{"start":"2040-03-01T10:00:00","seats":"one","name":"A\u0000B","address":"Name <a@b.example>","locale":"de_DE","note":7,"vip":true}`))
	check(t, "body too large", "post", "/v1/bookings", d.book(map[string]any{"note": strings.Repeat("x", 65<<10)}))
	check(t, "unsupported media type", "post", "/v1/bookings", d.book(nil, "Content-Type", "text/plain"))
	d.do(http.MethodPut, at, "").golden(t, "method not allowed")
	d.do(http.MethodGet, "/v2/bookings", "").golden(t, "not found")

	d.exec(`
		insert into notifier.send_log (key, booking, kind, role, state, reason, unknowns, due_at, handed_at, accepted_at, channel, version, urgency)
		select key, $4, kind, role, state, reason, unknowns, due::timestamptz, handed::timestamptz, accepted::timestamptz, 'email', 1, 0
		from (values
		    ($1, 'confirm', 'customer', 'sent', null, 1, '2040-01-01', '2040-01-01', '2040-01-01 00:00:01'),
		    ($2, 'confirm', 'host', 'refused', '550 5.1.1 no such user', 0, '2040-01-01', '2040-01-02', null),
		    ($3, 'reminder', 'customer', 'planned', null, 0, '2040-02-29 09:00', null, null)
		) row (key, kind, role, state, reason, unknowns, due, handed, accepted)`,
		"email-confirm-"+id+"-v1", "email-confirm-"+id+"-v1-host", "reminder-"+id+"-v1", id)
	check(t, "read with messages", "get", one, d.do(http.MethodGet, at, ""))

	d.exec(`create function full_disk() returns trigger language plpgsql as $$ begin raise exception 'no space' using errcode = '53100'; end $$;
		create trigger full_disk before insert on booking.outbox_events for each row execute function full_disk()`)
	check(t, "unavailable", "post", "/v1/bookings", d.book(nil, "Idempotency-Key", "k-2"))
	d.exec(`drop trigger full_disk on booking.outbox_events;
		alter table booking.contacts add constraint bug check (name <> 'Ada Lovelace') not valid`)
	d.book(nil).golden(t, "internal")
	d.exec(`alter table booking.contacts drop constraint bug`)
	if r := d.book(nil, "Idempotency-Key", "k-2"); r.status != http.StatusCreated {
		t.Errorf("the key of a 503 again: %d %s", r.status, r.body)
	}
	for _, line := range d.logs.All() {
		text := fmt.Sprint(line.Message, line.ContextMap())
		if !strings.HasPrefix(text, "request failed") || strings.Contains(text, "Ada") || strings.Contains(text, "ada@") {
			t.Errorf("logged %s", text)
		}
	}
	if n := d.logs.Len(); n != 2 {
		t.Errorf("%d lines were logged for two failures", n)
	}
}

// Times go in with any offset and come out in UTC and in the resource's zone; the fraction of
// a second is dropped.
func TestTimes(t *testing.T) {
	d := open(t)
	tests := map[string]struct{ in, utc, local string }{
		"summer in Berlin":      {"2040-07-01T10:00:00+02:00", "2040-07-01T08:00:00Z", "2040-07-01T10:00:00+02:00"},
		"another offset":        {"2040-07-02T10:00:00-11:30", "2040-07-02T21:30:00Z", "2040-07-02T23:30:00+02:00"},
		"with a fraction":       {"2040-07-03T10:00:00.999999999Z", "2040-07-03T10:00:00Z", "2040-07-03T12:00:00+02:00"},
		"an odd minute":         {"2040-07-04T10:07:31Z", "2040-07-04T10:07:31Z", "2040-07-04T12:07:31+02:00"},
		"a lone millisecond":    {"2040-07-05T10:00:00.000Z", "2040-07-05T10:00:00Z", "2040-07-05T12:00:00+02:00"},
		"the last year allowed": {"9998-12-31T23:59:59Z", "9998-12-31T23:59:59Z", "9999-01-01T00:59:59+01:00"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := d.book(map[string]any{"start": tt.in}).booking(t)
			if got := b.Start.Format(time.RFC3339Nano); got != tt.utc || b.LocalStart != tt.local || !b.End.Equal(b.Start.Add(time.Hour)) {
				t.Errorf("start %s, local %s, end %s", got, b.LocalStart, b.End)
			}
		})
	}
}

// The two days on which clocks change in Berlin. Without an offset 02:30 is never or twice and
// is refused; with one it is one instant, and a reminder comes 24 elapsed hours before it.
func TestB106ClockChange(t *testing.T) {
	d := open(t)
	for _, local := range []string{"2040-03-25T02:30:00", "2040-10-28T02:30:00", "2040-03-25T02:30", "2040-03-25 02:30:00", "2040-03-25"} {
		r := d.book(map[string]any{"start": local})
		if r.status != http.StatusUnprocessableEntity || !strings.Contains(string(r.body), `"field":"start"`) {
			t.Errorf("%s: %d %s", local, r.status, r.body)
		}
	}
	tests := map[string]struct{ in, local, remind string }{
		"an hour that is not there, by the offset before": {"2040-03-25T02:30:00+01:00", "2040-03-25T03:30:00+02:00", "2040-03-24T01:30:00Z"},
		"the first 02:30":  {"2040-10-28T02:30:00+02:00", "2040-10-28T02:30:00+02:00", "2040-10-27T00:30:00Z"},
		"the second 02:30": {"2040-10-28T02:30:00+01:00", "2040-10-28T02:30:00+01:00", "2040-10-27T01:30:00Z"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := d.book(map[string]any{"start": tt.in}).booking(t)
			if b.LocalStart != tt.local || b.RemindAt == nil || b.RemindAt.Format(time.RFC3339) != tt.remind {
				t.Errorf("local start %s, remind at %v", b.LocalStart, b.RemindAt)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	d := open(t)
	b := d.book(map[string]any{"seats": nil, "locale": nil, "note": nil}).booking(t)
	if b.Seats != 1 || b.Note != "" || b.Messages != nil {
		t.Errorf("booked %+v", b)
	}
	r := d.do(http.MethodPatch, "/v1/bookings/"+b.ID, `{"locale":null,"note":null}`, "If-Match", "*", "Content-Type", "application/merge-patch+json")
	if r.booking(t).Version != 1 {
		t.Errorf("null for what is empty: %s", r.body)
	}
	if r := d.do(http.MethodHead, "/v1/bookings/"+b.ID, ""); r.status != http.StatusOK || r.header.Get("Etag") != `"1"` || len(r.body) != 0 {
		t.Errorf("HEAD: %d %v", r.status, r.header)
	}
}
