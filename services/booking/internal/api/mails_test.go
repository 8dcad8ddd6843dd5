package api_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/testkit/dbtest"
)

// A mail too many is a 429 that says when to come back, and its key is free for that.
func TestTooManyMails(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	d := openOn(t, db, db.Pool("slotwise_booking"), func(b *app.Bookings) { b.Mails = 2 })
	spec := readContract(t)
	hall := map[string]any{"resource": "hall"}
	at := d.book(hall).header.Get("Location")
	d.book(hall).booking(t)
	check := func(method, path string, r reply) {
		t.Helper()
		spec.Check(t, method, path, r.status, r.header, r.body)
		seconds, err := strconv.Atoi(r.header.Get("Retry-After"))
		if r.status != http.StatusTooManyRequests || r.slug() != "too-many-mails" || err != nil || seconds < 3500 || seconds > 3600 {
			t.Errorf("%d %v %s", r.status, r.header, r.body)
		}
	}
	check("post", "/v1/bookings", d.book(hall, "Idempotency-Key", "k"))
	check("post", "/v1/bookings/{id}/reschedule", d.do(http.MethodPost, at+"/reschedule", `{"start":"2041-01-01T10:00:00Z"}`, "If-Match", etag(1)))
	check("patch", "/v1/bookings/{id}", d.do(http.MethodPatch, at, `{"seats":2}`, "If-Match", etag(1)))
	d.exec(`update booking.customers set mails_owed = array[now() - interval '61 minutes', now() - interval '1 minute']`)
	d.book(hall, "Idempotency-Key", "k").booking(t)
	if r := d.do(http.MethodPost, at+"/cancel", "", "If-Match", etag(1)); r.booking(t).Status != "cancelled" {
		t.Errorf("cancel: %d %s", r.status, r.body)
	}
	if n := d.logs.Len(); n != 0 {
		t.Errorf("%d lines were logged", n)
	}
}
