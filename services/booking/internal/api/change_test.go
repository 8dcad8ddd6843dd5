package api_test

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/proxy"
)

// race asks n times at once and returns the answers by status.
func (d *door) race(n int, ask func(i int) (reply, error)) map[int][]reply {
	d.t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	answers := map[int][]reply{}
	for i := range n {
		all.Go(func() {
			r, err := ask(i)
			if err != nil {
				d.t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers[r.status] = append(answers[r.status], r)
		})
	}
	all.Wait()
	return answers
}

// Issue 3 §4.13, B128, B129: fifty at once for one slot: one 201, 49 times 409, one booking, one
// event; slots that overlap exclude each other, slots that touch don't.
func TestB128OneSlotOneBooking(t *testing.T) {
	t.Parallel()
	d := open(t)
	answers := d.race(50, func(int) (reply, error) { return d.try(http.MethodPost, "/v1/bookings", fields(nil)) })
	if len(answers[201]) != 1 || len(answers[409]) != 49 {
		t.Errorf("statuses %v", counts(answers))
	}
	for _, table := range []string{"bookings", "seats", "outbox_events", "contacts"} {
		if n := d.count(`select count(*) from booking.` + table); n != 1 {
			t.Errorf("%d rows in %s", n, table)
		}
	}
	starts := []string{"10:00", "10:15", "10:30"} // half an hour each: the first and the last touch
	answers = d.race(30, func(i int) (reply, error) {
		return d.try(http.MethodPost, "/v1/bookings", fields(map[string]any{"resource": "half-hours", "start": "2040-05-05T" + starts[i%3] + ":00Z"}))
	})
	won := len(answers[201])
	if won != 1 && won != 2 || won+len(answers[409]) != 30 {
		t.Errorf("statuses %v", counts(answers))
	}
	for _, r := range answers[201] {
		b := r.booking(t)
		if got := d.do(http.MethodGet, r.header.Get("Location"), "").booking(t); got.ID != b.ID || !got.Start.Equal(b.Start) {
			t.Errorf("a 201 without its booking: %+v", got)
		}
	}
}

// B131: capacity 5, two hundred at once: exactly 5; one is cancelled, fifty race for its seat.
func TestB131ExactlyAsManyAsThereAre(t *testing.T) {
	t.Parallel()
	d := open(t)
	ask := func(i int) (reply, error) {
		return d.try(http.MethodPost, "/v1/bookings", fields(map[string]any{"resource": "hall", "address": fmt.Sprintf("p%d@x.example", i%20)}))
	}
	answers := d.race(200, ask)
	if len(answers[201]) != 5 || len(answers[409]) != 195 {
		t.Fatalf("statuses %v", counts(answers))
	}
	r := d.do(http.MethodPost, answers[201][0].header.Get("Location")+"/cancel", "", "If-Match", "*")
	if r.status != http.StatusOK {
		t.Fatalf("cancel: %d %s", r.status, r.body)
	}
	if answers = d.race(50, ask); len(answers[201]) != 1 || len(answers[409]) != 49 {
		t.Errorf("statuses %v", counts(answers))
	}
}

func counts(answers map[int][]reply) map[int]int {
	all := map[int]int{}
	for status, replies := range answers {
		all[status] = len(replies)
	}
	return all
}

// B130: confirm, cancel and reschedule of one booking at once, all from one version.
func TestB130OneWinnerAVersion(t *testing.T) {
	t.Parallel()
	d := open(t)
	at := d.book(nil).header.Get("Location")
	answers := d.race(30, func(i int) (reply, error) {
		switch i % 3 {
		case 0:
			return d.try(http.MethodPost, at+"/cancel", "{}", "If-Match", etag(1))
		case 1:
			return d.try(http.MethodPost, at+"/reschedule", fmt.Sprintf(`{"start":"2041-01-%02dT10:00:00Z"}`, i+1), "If-Match", etag(1))
		}
		return d.try(http.MethodPatch, at, fmt.Sprintf(`{"note":"n%d"}`, i), "If-Match", etag(1))
	})
	if len(answers[200]) != 1 || len(answers[412]) != 29 {
		t.Errorf("statuses %v", counts(answers))
	}
	if n := d.count(`select count(*) from booking.outbox_events`); n != 2 {
		t.Errorf("%d events", n)
	}
}

// B136: the second writer does not win silently, in whatever form the header comes.
func TestB136IfMatch(t *testing.T) {
	t.Parallel()
	d := open(t)
	at := d.book(nil).header.Get("Location")
	tests := []struct {
		headers []string
		status  int
	}{
		{nil, 428},
		{[]string{"If-Match", `"2"`}, 412},
		{[]string{"If-Match", `W/"1"`}, 412},
		{[]string{"If-Match", `"01"`}, 412},
		{[]string{"If-Match", `"x,y", "", W/"1"`}, 412},
		{[]string{"If-Match", `1`}, 422},
		{[]string{"If-Match", `"1`}, 422},
		{[]string{"If-Match", `"1" "2"`}, 422},
		{[]string{"If-Match", `*, "1"`}, 422},
		{[]string{"If-Match", `w/"1"`}, 422},
		{[]string{"If-Match", `"1"`}, 200},
		{[]string{"If-Match", `"7", W/"1" ,,"1"`}, 200},
		{[]string{"If-Match", `"7"`, "If-Match", `"1"`}, 200},
		{[]string{"If-Match", ` * `}, 200},
	}
	for _, tt := range tests {
		if r := d.do(http.MethodPatch, at, `{"seats":1}`, tt.headers...); r.status != tt.status {
			t.Errorf("%q: %d %s, want %d", tt.headers, r.status, r.body, tt.status)
		}
	}
	if r := d.do(http.MethodPost, at+"/cancel", ""); r.status != http.StatusPreconditionRequired {
		t.Errorf("cancel: %d", r.status)
	}
	answers := d.race(2, func(i int) (reply, error) {
		return d.try(http.MethodPost, at+"/reschedule", fmt.Sprintf(`{"start":"2041-01-0%dT10:00:00Z"}`, i+1), "If-Match", etag(1))
	})
	if len(answers[200]) != 1 || len(answers[412]) != 1 {
		t.Errorf("statuses %v", counts(answers))
	}
}

// B137: twenty at once with one key: one booking, everybody else waits or gets that answer.
func TestB137OneKey(t *testing.T) {
	t.Parallel()
	d := open(t)
	answers := d.race(20, func(int) (reply, error) {
		return d.try(http.MethodPost, "/v1/bookings", fields(map[string]any{"resource": "hall"}), "Idempotency-Key", "one")
	})
	if len(answers[201])+len(answers[409]) != 20 || len(answers[201]) == 0 {
		t.Fatalf("statuses %v", counts(answers))
	}
	for _, r := range answers[201] {
		if !bytes.Equal(r.body, answers[201][0].body) || r.header.Get("Etag") != `"1"` || r.header.Get("Location") != answers[201][0].header.Get("Location") {
			t.Errorf("another answer: %v %s", r.header, r.body)
		}
	}
	for _, r := range answers[409] {
		if r.slug() != "idempotency-key-in-use" || r.header.Get("Retry-After") == "" {
			t.Errorf("409: %v %s", r.header, r.body)
		}
	}
	if n := d.count(`select count(*) from booking.bookings`); n != 1 {
		t.Errorf("%d bookings", n)
	}
}

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	d := open(t)
	first := d.book(nil, "Idempotency-Key", "k")
	at := first.header.Get("Location")
	refused := d.book(nil, "Idempotency-Key", "k-taken")
	stale := d.do(http.MethodPost, at+"/cancel", "{}", "If-Match", etag(9), "Idempotency-Key", "k-stale")
	d.do(http.MethodPost, at+"/cancel", "{}", "If-Match", etag(1), "Idempotency-Key", "k-cancel").booking(t)
	again := []struct {
		name   string
		r      reply
		status int
		same   reply
	}{
		{"the first answer, after everything", d.book(nil, "Idempotency-Key", "k"), 201, first},
		{"a refusal, though the slot is free now", d.book(nil, "Idempotency-Key", "k-taken"), 409, refused},
		{"a precondition that failed", d.do(http.MethodPost, at+"/cancel", "{}", "If-Match", etag(9), "Idempotency-Key", "k-stale"), 412, stale},
		{"another body", d.book(map[string]any{"note": "x"}, "Idempotency-Key", "k"), 422, reply{}},
		{"another path", d.do(http.MethodPost, at+"/cancel", "{}", "If-Match", "*", "Idempotency-Key", "k"), 422, reply{}},
		{"a key that is too long", d.book(nil, "Idempotency-Key", string(bytes.Repeat([]byte("k"), 256))), 422, reply{}},
		{"a key that is no ASCII", d.book(nil, "Idempotency-Key", "ké"), 422, reply{}},
		{"two keys", d.book(nil, "Idempotency-Key", "a", "Idempotency-Key", "b"), 422, reply{}},
	}
	for _, tt := range again {
		if tt.r.status != tt.status || tt.same.body != nil && (!bytes.Equal(tt.r.body, tt.same.body) || tt.r.header.Get("Etag") != tt.same.header.Get("Etag")) {
			t.Errorf("%s: %d %s", tt.name, tt.r.status, tt.r.body)
		}
	}
	// A request that was refused before it reached the database may be mended under its key.
	if r := d.book(map[string]any{"name": ""}, "Idempotency-Key", "mended"); r.status != http.StatusUnprocessableEntity {
		t.Errorf("no name: %d", r.status)
	}
	if r := d.book(nil, "Idempotency-Key", "mended"); r.status != http.StatusCreated {
		t.Errorf("mended: %d %s", r.status, r.body)
	}
}

// B30, B140: whatever happens on COMMIT's way, the client that repeats its request with the
// same key gets one booking, and there is one outbox row.
func TestB30LostCommit(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*proxy.Conn){
		"its answer is lost":         func(c *proxy.Conn) { c.CutAt(proxy.ToClient) },
		"it is lost":                 func(c *proxy.Conn) { c.Cut() },
		"its answer never comes":     func(c *proxy.Conn) { c.Drop(proxy.ToClient) },
		"it is held on the way back": func(c *proxy.Conn) { c.Hold(proxy.ToClient) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := dbtest.New(t)
			p := proxy.New(t, db.URL("slotwise_booking"))
			pool, err := pgxpool.New(t.Context(), p.URL(db.URL("slotwise_booking")))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			d := openOn(t, db, pool)
			met := p.When(proxy.ToServer, proxy.Commit, lose)
			first := d.book(nil, "Idempotency-Key", "k")
			<-met
			if first.status != http.StatusServiceUnavailable || first.header.Get("Retry-After") == "" {
				t.Errorf("no COMMIT known: %d %s", first.status, first.body)
			}
			again := d.book(nil, "Idempotency-Key", "k")
			for again.slug() == "idempotency-key-in-use" { // until the idle transaction is ended, 20 s at most
				select {
				case <-t.Context().Done():
					t.Fatal(t.Context().Err())
				case <-time.After(100 * time.Millisecond):
				}
				again = d.book(nil, "Idempotency-Key", "k")
			}
			b := again.booking(t)
			if r := d.do(http.MethodGet, "/v1/bookings/"+b.ID, ""); r.status != http.StatusOK {
				t.Errorf("%d %s", r.status, r.body)
			}
			if n := d.count(`select (select count(*) from booking.bookings) * 10 + (select count(*) from booking.outbox_events)`); n != 11 {
				t.Errorf("bookings and events: %d", n)
			}
			p.Cut() // the pool waits for connections that it has given up
		})
	}
}

// B84, B144 of the API: PostgreSQL that is away, or comes back, is a 503 and then none; never a
// 500.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	p := proxy.New(t, db.URL("slotwise_booking"))
	pool, err := pgxpool.New(t.Context(), p.URL(db.URL("slotwise_booking")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	d := openOn(t, db, pool)
	at := d.book(nil).header.Get("Location")
	p.Refuse()
	p.Cut()
	for name, r := range map[string]reply{
		"post": d.book(nil), "get": d.do(http.MethodGet, at, ""), "cancel": d.do(http.MethodPost, at+"/cancel", "", "If-Match", "*"),
	} {
		if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || r.slug() != "unavailable" {
			t.Errorf("%s: %d %v %s", name, r.status, r.header, r.body)
		}
	}
	p.Accept()
	if r := d.do(http.MethodGet, at, ""); r.status != http.StatusOK {
		t.Errorf("back again: %d %s", r.status, r.body)
	}
}

func TestTraceTravelsOn(t *testing.T) {
	t.Parallel()
	d := open(t)
	good := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for i, tt := range []struct{ in, want string }{
		{good, good},
		{"", ""},
		{"00-" + "00000000000000000000000000000000" + "-00f067aa0ba902b7-01", ""},
		{"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", ""},
		{"ff" + good[2:], ""},
		{good + "-x", ""},
		{"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", ""},
	} {
		r := d.book(map[string]any{"start": fmt.Sprintf("2040-07-%02dT10:00:00Z", i+1)}, "Traceparent", tt.in)
		var got string
		err := d.db.Admin.QueryRow(t.Context(), `select coalesce(headers ->> 'traceparent', '') from booking.outbox_events where key = $1`, r.booking(t).ID).Scan(&got)
		if err != nil || got != tt.want {
			t.Errorf("%q became %q (%v)", tt.in, got, err)
		}
	}
}
