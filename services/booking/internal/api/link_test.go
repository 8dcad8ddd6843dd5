package api_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/link"
	"github.com/slotwise/slotwise/services/booking/internal/api"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/page"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"go.uber.org/zap"
)

func testKeys(tb testing.TB) link.Keys {
	tb.Helper()
	keys, err := link.ParseKeys("1:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32)))
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}

// token is that of the link in a mail about a booking that stands now.
func (d *door) token(b bookingJSON) string {
	d.t.Helper()
	var customer string
	if err := d.db.Admin.QueryRow(d.t.Context(), `select customer::text from booking.contacts where booking = $1`, b.ID).Scan(&customer); err != nil {
		d.t.Fatal(err)
	}
	return d.sign(link.For(b.ID, customer, b.End))
}

func (d *door) sign(l link.Link) string {
	d.t.Helper()
	token, err := testKeys(d.t).Sign(l)
	if err != nil {
		d.t.Fatal(err)
	}
	return token
}

// browse asks as a browser does, but follows no redirect; a form is posted.
func (d *door) browse(path string, form url.Values, headers ...string) reply {
	d.t.Helper()
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	request, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, body)
	if err != nil {
		d.t.Fatal(err)
	}
	request.Header.Set("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", "null") // as no-referrer has it
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, all}
}

// wantPage fails unless the answer is a page of that status with those words on it.
func (r reply) wantPage(t *testing.T, status int, words ...string) {
	t.Helper()
	if r.status != status || r.header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("%d %s, want a page with %d\n%s", r.status, r.header.Get("Content-Type"), status, r.body)
	}
	for _, word := range words {
		if !strings.Contains(string(r.body), word) {
			t.Errorf("no %q in\n%s", word, r.body)
		}
	}
	wantShield(t, r)
}

// wantShield fails unless the answer keeps its address to itself.
func wantShield(t *testing.T, r reply) {
	t.Helper()
	for name, want := range map[string]string{
		"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Robots-Tag": "noindex, nofollow",
		"Content-Security-Policy": page.Policy, "X-Content-Type-Options": "nosniff", "Vary": "Accept",
	} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if r.header.Get("Set-Cookie") != "" || r.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("headers %v", r.header)
	}
}

const asJSON = "application/json"

// A customer with a program: sees what is the customer's, moves, and cancels.
func TestLinksInJSON(t *testing.T) {
	t.Parallel()
	d := open(t)
	spec := readContract(t)
	b := d.book(nil).booking(t)
	at := "/b/" + d.token(b)
	check := func(name, method, path string, r reply) {
		t.Helper()
		r.golden(t, name)
		wantShield(t, r)
		spec.Check(t, method, "/b/{token}"+path, r.status, r.header, r.body)
		if strings.Contains(string(r.body), "@x.example") || strings.Contains(string(r.body), "messages") {
			t.Errorf("%s shows %s", name, r.body)
		}
	}
	move := func(start string, headers ...string) reply {
		return d.do(http.MethodPost, at+"/move", `{"start":"`+start+`"}`, headers...)
	}
	see := func() reply { return d.do(http.MethodGet, at, "", "Accept", asJSON) }
	check("link seen", "get", "", see())
	check("link moved", "post", "/move", move("2040-03-02T10:00:00+01:00", "If-Match", etag(1)))
	check("link without a version", "post", "/move", move("2040-03-02T10:00:00+01:00"))
	check("link with a stale version", "post", "/move", move("2040-03-03T10:00:00+01:00", "If-Match", etag(1)))
	check("link with a local time", "post", "/move", move("2040-03-03T10:00:00", "If-Match", etag(2)))
	d.book(map[string]any{"start": "2040-05-01T10:00:00Z"}).booking(t)
	check("link to a taken slot", "post", "/move", move("2040-05-01T10:30:00Z", "If-Match", etag(2)))
	check("link with a wrong type", "post", "/cancel", d.do(http.MethodPost, at+"/cancel", "version=2", "Content-Type", "text/plain", "Accept", asJSON))
	check("link cancelled", "post", "/cancel", d.do(http.MethodPost, at+"/cancel", "", "If-Match", etag(2)))
	check("link to a cancelled booking", "post", "/move", move("2040-03-03T10:00:00Z", "If-Match", etag(3)))
	check("link seen cancelled", "get", "", see())
	if n := d.logs.Len(); n != 0 {
		t.Errorf("%d lines were logged: %v", n, d.logs.All())
	}
}

// A customer with a browser: sees, moves and cancels by forms, whatever happens meanwhile.
func TestLinksOnPages(t *testing.T) {
	t.Parallel()
	d := open(t)
	b := d.book(map[string]any{"name": "</p><b>Zoë", "note": "one\ntwo"}).booking(t)
	token := d.token(b)
	at := "/b/" + token
	d.browse(at, nil).wantPage(t, 200, "Your booking is confirmed", "Room 7", "Thursday, 1 March 2040, 10:00 to 11:00", "&lt;/p&gt;&lt;b&gt;Zoë", "one\ntwo",
		`action="`+token+`/move"`, `action="`+token+`/cancel"`, `value="2040-03-01T10:00"`)

	start := func(version, start string) url.Values { return url.Values{"version": {version}, "start": {start}} }
	r := d.browse(at+"/move", start("1", "2040-03-02T12:30"))
	if r.status != http.StatusSeeOther || r.header.Get("Location") != "../"+token || len(r.body) != 0 {
		t.Errorf("moved: %d %v %s", r.status, r.header, r.body)
	}
	wantShield(t, r)
	d.browse(at, nil).wantPage(t, 200, "Friday, 2 March 2040, 12:30 to 13:30", `name="version" value="2"`)

	up := `action="../` + token + `/move"`
	d.browse(at+"/move", start("1", "2040-03-03T12:30")).wantPage(t, 412, "has changed since", "2 March 2040, 12:30", up, `name="version" value="2"`)
	d.browse(at+"/cancel", url.Values{"version": {"1"}}).wantPage(t, 412, "has changed since", up)
	d.browse(at+"/cancel", url.Values{}).wantPage(t, 428, "has changed since")
	for _, path := range []string{"/move", "/cancel"} { // such a page, opened again
		if r := d.browse(at+path, nil); r.status != http.StatusSeeOther || r.header.Get("Location") != "../"+token {
			t.Errorf("GET %s: %d %s", path, r.status, r.body)
		}
	}
	d.browse(at+"/move", start("2", "soon")).wantPage(t, 422, "the new start must be a day and a time", up)
	d.browse(at+"/move", start("2", "1999-01-01T10:00")).wantPage(t, 422, "the new start must lie in the future")
	d.browse(at+"/move", start("2", "2040-03-25T02:30")).wantPage(t, 422, "does not come on that day")
	d.browse(at+"/move", url.Values{"version": {"2"}, "start": {"2040-03-03T12:30"}, "seats": {"9"}}).wantPage(t, 422, "could not be read")
	d.browse(at+"/move", url.Values{"version": {"2", "2"}, "start": {"2040-03-03T12:30"}}).wantPage(t, 422, "could not be read")
	d.browse(at+"/move", start("2", strings.Repeat("x", 70<<10))).wantPage(t, 413, "could not be read")
	d.book(map[string]any{"start": "2040-05-01T10:00:00+02:00"}).booking(t)
	d.browse(at+"/move", start("2", "2040-05-01T10:59")).wantPage(t, 409, "not enough seats are free", "2 March 2040, 12:30", up)

	twice := d.browse(at+"/move", start("2", "2040-10-28T02:30"))
	twice.wantPage(t, 422, "comes twice", `value="2040-10-28T02:30:00&#43;02:00"`, `value="2040-10-28T02:30:00&#43;01:00"`)
	if r := d.browse(at+"/move", start("2", "2040-10-28T02:30"), "Accept", asJSON); r.slug() != "invalid-request" || !strings.Contains(string(r.body), "name its offset") {
		t.Errorf("twice, as JSON: %d %s", r.status, r.body)
	}
	if r := d.browse(at+"/move", start("2", "2040-10-28T02:30:00+01:00")); r.status != http.StatusSeeOther {
		t.Errorf("chosen: %d %s", r.status, r.body)
	}
	d.browse(at, nil).wantPage(t, 200, "Sunday, 28 October 2040, 02:30 to 03:30")
	if r := d.browse(at+"/cancel", url.Values{"version": {"3"}}); r.status != http.StatusSeeOther || r.header.Get("Location") != "../"+token {
		t.Errorf("cancelled: %d %s", r.status, r.body)
	}
	done := d.browse(at, nil)
	done.wantPage(t, 200, "Your booking is cancelled")
	if strings.Contains(string(done.body), "<form") {
		t.Errorf("a cancelled booking has forms:\n%s", done.body)
	}
	d.browse(at+"/move", start("4", "2040-03-03T12:30")).wantPage(t, 409, "cancelled, for good")
	if n := d.logs.Len(); n != 0 {
		t.Errorf("%d lines were logged: %v", n, d.logs.All())
	}
}

// Once it is over, the booking can only be seen, for as long as the link lives.
func TestLinksWhenItIsOver(t *testing.T) {
	t.Parallel()
	d := open(t)
	b := d.book(nil).booking(t)
	b.End = time.Now().Add(-time.Hour)
	d.exec(`update booking.bookings set starts_at = $2::timestamptz - interval '1 hour', ends_at = $2, remind_at = null where id = $1`, b.ID, b.End)
	at := "/b/" + d.token(b)
	seen := d.browse(at, nil)
	seen.wantPage(t, 200, "Your booking is over", "Room 7")
	if strings.Contains(string(seen.body), "<form") {
		t.Errorf("a booking that is over has forms:\n%s", seen.body)
	}
	d.browse(at+"/cancel", url.Values{"version": {"1"}}).wantPage(t, 409, "Nothing was changed: your booking is over.")
	if r := d.do(http.MethodPost, at+"/move", `{"start":"2040-03-02T10:00:00Z"}`, "If-Match", "*"); r.status != 409 || r.slug() != "booking-over" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if n := d.count(`select count(*) from booking.outbox_events`); n != 1 {
		t.Errorf("%d events", n)
	}
}

// B130: by links and by the API at once, all from one version: one of them is it.
func TestB130OneWinnerByLinkOrKey(t *testing.T) {
	t.Parallel()
	d := open(t)
	b := d.book(nil).booking(t)
	at := "/b/" + d.token(b)
	answers := d.race(30, func(i int) (reply, error) {
		switch i % 3 {
		case 0:
			return d.try(http.MethodPost, at+"/cancel", "{}", "If-Match", etag(1))
		case 1:
			return d.try(http.MethodPost, at+"/move", fmt.Sprintf(`{"start":"2041-01-%02dT10:00:00Z"}`, i+1), "If-Match", etag(1))
		}
		return d.try(http.MethodPatch, "/v1/bookings/"+b.ID, fmt.Sprintf(`{"note":"n%d"}`, i), "If-Match", etag(1))
	})
	if len(answers[200]) != 1 || len(answers[412]) != 29 {
		t.Errorf("statuses %v", counts(answers))
	}
	if n := d.count(`select count(*) from booking.outbox_events`); n != 2 {
		t.Errorf("%d events", n)
	}
}

// What fetches links ahead of people, or asks in any other way than a POST, changes nothing: it
// is shown the page, or refused.
func TestFetchingALinkChangesNothing(t *testing.T) {
	t.Parallel()
	d := open(t)
	at := "/b/" + d.token(d.book(nil).booking(t))
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions} {
		for path, body := range map[string]string{"": "", "/move": `{"start":"2040-03-02T10:00:00Z"}`, "/cancel": ""} {
			r := d.do(method, at+path, body, "If-Match", "*")
			seen := method == http.MethodGet || method == http.MethodHead
			if seen && r.status != http.StatusOK || !seen && r.status != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, r.status)
			}
		}
	}
	if n := d.count(`select count(*) from booking.outbox_events`); n != 1 {
		t.Errorf("%d events", n)
	}
}

// Whatever is wrong with a token, its bearer gets one answer, and nothing about any booking.
func TestDeadLinks(t *testing.T) {
	t.Parallel()
	d := open(t)
	b := d.book(nil).booking(t)
	good := d.token(b)
	customer := d.text(`select customer::text from booking.contacts`)
	other := d.book(map[string]any{"start": "2040-04-01T10:00:00Z", "address": "bob@x.example"}).booking(t)
	tokens := map[string]string{
		"of nothing":            "x",
		"with a letter changed": "B" + good[1:],
		"too long":              good + "A",
		"expired":               d.sign(link.For(b.ID, customer, time.Now().Add(-31*24*time.Hour))),
		"of no booking":         d.sign(link.For("01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f", customer, b.End)),
		"of another's booking":  d.sign(link.For(other.ID, customer, b.End)),
	}
	first, firstPage := d.do(http.MethodGet, "/b/y", "", "Accept", asJSON), d.browse("/b/y", nil)
	first.golden(t, "link dead")
	firstPage.wantPage(t, 404, "This link does not work")
	checks := 0
	check := func(name, token string) {
		t.Helper()
		checks++
		client := fmt.Sprintf("192.0.2.%d", checks) // each has its own limit
		for _, r := range []reply{
			d.do(http.MethodGet, "/b/"+token, "", "Accept", asJSON, "X-Forwarded-For", client),
			d.do(http.MethodPost, "/b/"+token+"/move", `{"start":"2040-03-02T10:00:00Z"}`, "If-Match", "*", "X-Forwarded-For", client),
		} {
			if r.status != 404 || !bytes.Equal(r.body, first.body) || !sameHeaders(r, first) {
				t.Errorf("a token %s: %d %v %s", name, r.status, r.header, r.body)
			}
		}
		r := d.browse("/b/"+token+"/cancel", url.Values{"version": {"1"}}, "X-Forwarded-For", client)
		if r.status != 404 || !bytes.Equal(r.body, firstPage.body) || !sameHeaders(r, firstPage) {
			t.Errorf("a token %s: %d %v %s", name, r.status, r.header, r.body)
		}
	}
	for name, token := range tokens {
		check(name, token)
	}
	d.browse("/b/"+good, nil).wantPage(t, 200)
	d.do(http.MethodPatch, "/v1/bookings/"+b.ID, `{"address":"ADA@x.example"}`, "If-Match", "*").booking(t)
	d.browse("/b/"+good, nil).wantPage(t, 200) // the same person, typed in another way
	d.do(http.MethodPatch, "/v1/bookings/"+b.ID, `{"address":"carol@x.example"}`, "If-Match", "*").booking(t)
	check("of the address that was", good)
	fresh := d.token(b)
	d.browse("/b/"+fresh, nil).wantPage(t, 200)
	d.exec(`delete from booking.contacts`)
	check("of somebody who was erased", fresh)
	if n := d.logs.Len(); n != 0 {
		t.Errorf("%d lines were logged: %v", n, d.logs.All())
	}
}

func sameHeaders(a, b reply) bool {
	names := func(r reply) map[string][]string {
		all := maps.Clone(map[string][]string(r.header))
		delete(all, "Date")
		return all
	}
	return fmt.Sprint(names(a)) == fmt.Sprint(names(b))
}

func (d *door) text(sql string) (text string) {
	d.t.Helper()
	if err := d.db.Admin.QueryRow(d.t.Context(), sql).Scan(&text); err != nil {
		d.t.Fatal(err)
	}
	return text
}

// Wrong tokens have a limit of their own, and right ones of the same address go on.
func TestWrongTokensAreLimited(t *testing.T) {
	t.Parallel()
	d := open(t)
	at := "/b/" + d.token(d.book(nil).booking(t))
	limited := 0
	for range 40 {
		r := d.do(http.MethodGet, "/b/x", "", "Accept", asJSON)
		switch seconds, err := strconv.Atoi(r.header.Get("Retry-After")); {
		case r.status == http.StatusTooManyRequests && r.slug() == "too-many-requests" && err == nil && seconds >= 1 && seconds <= 3:
			limited++
		case r.status != http.StatusNotFound:
			t.Fatalf("%d %v %s", r.status, r.header, r.body)
		}
	}
	if limited < 10 || limited > 20 {
		t.Errorf("%d of 40 were limited", limited)
	}
	r := d.browse("/b/x", nil)
	for r.status == http.StatusNotFound {
		r = d.browse("/b/x", nil)
	}
	r.wantPage(t, 429, "Please try again")
	d.browse(at, nil).wantPage(t, 200)
	d.browse("/b/x", nil, "X-Forwarded-For", "192.0.2.1").wantPage(t, 404)
}

// Without keys there are no links, and nothing tells that there could be.
func TestNoLinksWithoutKeys(t *testing.T) {
	t.Parallel()
	d := open(t)
	token := d.token(d.book(nil).booking(t))
	server := httptest.NewServer(api.New(app.Bookings{}, api.Doors{}, zap.NewNop(), prometheus.NewRegistry()))
	t.Cleanup(server.Close)
	d.url = server.URL
	for _, path := range []string{"/b/x", "/b/" + token, "/b/" + token + "/move"} {
		method := http.MethodGet
		if strings.HasSuffix(path, "/move") {
			method = http.MethodPost
		}
		if r := d.do(method, path, ""); r.status != 404 || r.slug() != "not-found" {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

// What goes wrong on our side is told without a booking, and logged without the token.
func TestLinksWhenTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	d := open(t)
	token := d.token(d.book(nil).booking(t))
	d.exec(`create function full_disk() returns trigger language plpgsql as $$ begin raise exception 'no space' using errcode = '53100'; end $$;
		create trigger full_disk before insert on booking.outbox_events for each row execute function full_disk()`)
	r := d.browse("/b/"+token+"/cancel", url.Values{"version": {"1"}})
	r.wantPage(t, 503, "whether it was done is not known")
	if r.header.Get("Retry-After") == "" {
		t.Errorf("headers %v", r.header)
	}
	d.exec(`alter table booking.contacts rename column note to remark`)
	d.browse("/b/"+token, nil).wantPage(t, 500, "can&#39;t show your booking now")
	if r := d.do(http.MethodGet, "/b/"+token, "", "Accept", asJSON); r.status != 500 || r.slug() != "internal" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if n := d.logs.Len(); n != 3 {
		t.Errorf("%d lines were logged", n)
	}
	for _, line := range d.logs.All() {
		if text := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(text, token) || !strings.Contains(text, "/b/{token}") {
			t.Errorf("logged %s", text)
		}
	}
}

// A mail too many is refused here too, in words.
func TestTooManyMailsByLink(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	d := openOn(t, db, db.Pool("slotwise_booking"), func(b *app.Bookings) { b.Mails = 1 })
	at := "/b/" + d.token(d.book(nil).booking(t))
	r := d.browse(at+"/move", url.Values{"version": {"1"}, "start": {"2040-03-02T12:30"}})
	r.wantPage(t, 429, "so many mails went to your address", "60 minutes", "1 March 2040, 10:00")
	if r.header.Get("Retry-After") == "" {
		t.Errorf("headers %v", r.header)
	}
	if r := d.browse(at+"/cancel", url.Values{"version": {"1"}}); r.status != http.StatusSeeOther {
		t.Errorf("cancel: %d %s", r.status, r.body)
	}
}

// B124: every way to write fires the same event. The list is held against the router's, and each
// link's event against that of the API's own change.
func TestB124EveryWritePathFiresItsEvent(t *testing.T) {
	t.Parallel()
	type path struct {
		route string
		write func(d *door, b bookingJSON) reply
		event event.Type
		as    string // of the API, whose event is the same
	}
	ask := func(path, body string) func(*door, bookingJSON) reply {
		return func(d *door, b bookingJSON) reply {
			return d.do(http.MethodPost, "/v1/bookings/"+b.ID+path, body, "If-Match", etag(b.Version))
		}
	}
	const start = `{"start":"2040-06-01T10:00:00Z"}`
	paths := []path{
		{"POST /v1/bookings", func(d *door, _ bookingJSON) reply { return d.book(map[string]any{"start": "2041-01-01T10:00:00Z"}) }, event.Confirmed, ""},
		{"PATCH /v1/bookings/{id}", func(d *door, b bookingJSON) reply {
			return d.do(http.MethodPatch, "/v1/bookings/"+b.ID, `{"address":"bob@x.example"}`, "If-Match", etag(b.Version))
		}, event.Changed, ""},
		{"POST /v1/bookings/{id}/reschedule", ask("/reschedule", start), event.Rescheduled, ""},
		{"POST /v1/bookings/{id}/cancel", ask("/cancel", ""), event.Cancelled, ""},
		{"POST /b/{token}/move", func(d *door, b bookingJSON) reply {
			return d.browse("/b/"+d.token(b)+"/move", url.Values{"version": {fmt.Sprint(b.Version)}, "start": {"2040-06-01T12:00"}})
		}, event.Rescheduled, "POST /v1/bookings/{id}/reschedule"},
		{"POST /b/{token}/cancel", func(d *door, b bookingJSON) reply {
			return d.browse("/b/"+d.token(b)+"/cancel", url.Values{"version": {fmt.Sprint(b.Version)}})
		}, event.Cancelled, "POST /v1/bookings/{id}/cancel"},
	}
	listed := make([]string, 0, len(paths))
	for _, p := range paths {
		listed = append(listed, p.route)
	}
	writes := slices.DeleteFunc(routesOf(t), func(route string) bool { return strings.HasPrefix(route, "GET ") })
	slices.Sort(listed)
	slices.Sort(writes)
	if !slices.Equal(listed, writes) {
		t.Fatalf("the router writes by %v\nthe list is         %v", writes, listed)
	}
	told := map[string]event.Data{}
	for _, p := range paths {
		d := open(t)
		b := d.book(nil).booking(t)
		if r := p.write(d, b); r.status >= 400 {
			t.Fatalf("%s: %d %s", p.route, r.status, r.body)
		}
		e, err := event.Decode([]byte(d.text(`select convert_from(payload, 'UTF8') from booking.outbox_events order by id desc limit 1`)))
		if err != nil || e.Type != p.event {
			t.Errorf("%s tells %s, want %s (%v)", p.route, e.Type, p.event, err)
		}
		if n := d.count(`select count(*) from booking.outbox_events`); n != 2 {
			t.Errorf("%s: %d events", p.route, n)
		}
		e.Data.Booking, e.Data.Customer = "", ""
		told[p.route] = e.Data
		if want := told[p.as]; p.as != "" && mustJSON(t, e.Data) != mustJSON(t, want) {
			t.Errorf("%s tells %s\n%s tells %s", p.route, mustJSON(t, e.Data), p.as, mustJSON(t, want))
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
