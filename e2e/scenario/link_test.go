package scenario

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/mail"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/e2e/install"
	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/testkit/letter"
)

var linkForm = regexp.MustCompile(`http://[0-9.:]+/b/([A-Za-z0-9_-]+)`)

// links are those in a mail, in both its parts.
func links(t *testing.T, m *mail.Message) (urls []string) {
	t.Helper()
	var raw bytes.Buffer
	for name, values := range m.Header {
		fmt.Fprintf(&raw, "%s: %s\r\n", name, values[0])
	}
	body, err := io.ReadAll(m.Body)
	if err != nil {
		t.Fatal(err)
	}
	raw.WriteString("\r\n")
	raw.Write(body)
	l, err := letter.Parse(raw.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return linkForm.FindAllString(l.Text+l.HTML, -1)
}

// visit asks as a customer; redirects are followed, as a browser does.
func visit(t *testing.T, method, address string, form url.Values, headers ...string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(all)
}

// A customer moves the booking on the page behind the link in the mail, and cancels it by the
// link in the next one; each change brings its mails, as one by the API does. What is the
// credential stands in mails only: in no log, metric, event or row.
func TestB124CustomersActByLinks(t *testing.T) {
	t.Parallel()
	const ada, host = "ada@customer.example", "host@slotwise.example"
	in := install.Start(t)
	b := in.Book("room", ada, install.InDays(3))
	first := links(t, await(in, ada, 1, 20*time.Second)[0])
	if len(first) != 2 || first[0] != first[1] || !strings.HasPrefix(first[0], in.APIURL()+"/b/") {
		t.Fatalf("the first mail has the links %v", first)
	}
	if found := links(t, await(in, host, 1, 20*time.Second)[0]); len(found) != 0 {
		t.Errorf("the host's mail has the links %v", found)
	}
	if status, body := visit(t, http.MethodGet, first[0], nil); status != http.StatusOK || !strings.Contains(body, "Your booking is confirmed") {
		t.Fatalf("the page: %d %s", status, body)
	}

	day := install.InDays(5).Format(time.DateOnly)
	status, body := visit(t, http.MethodPost, first[0]+"/move", url.Values{"version": {"1"}, "start": {day + "T12:00"}})
	if status != http.StatusOK || !strings.Contains(body, "12:00 to 13:00") {
		t.Fatalf("moved: %d %s", status, body)
	}
	moved := await(in, ada, 2, 20*time.Second)[1]
	if key := moved.Header.Get("Message-Id"); !strings.HasPrefix(key, "<email-move-"+b.ID+"-v2@") {
		t.Errorf("the second mail is %s", key)
	}
	await(in, host, 2, 20*time.Second)

	second := links(t, moved)
	if len(second) != 2 || second[0] == first[0] {
		t.Fatalf("the second mail has the links %v", second)
	}
	if status, body := visit(t, http.MethodGet, first[0], nil, "Accept", "application/json"); status != http.StatusOK || !strings.Contains(body, `"version":2`) {
		t.Errorf("by the first link: %d %s", status, body)
	}
	if status, body := visit(t, http.MethodPost, first[0]+"/cancel", url.Values{"version": {"1"}}); status != http.StatusPreconditionFailed || !strings.Contains(body, "has changed") {
		t.Errorf("from a stale page: %d %s", status, body)
	}
	const wrong = "Wrong-But-As-Long-As-A-Token-00000000000000000000000000000000000000000"
	for _, address := range []string{in.APIURL() + "/b/" + wrong, in.APIURL() + "/b/" + wrong + "/x", first[0] + "/nothing", first[0] + "?a;b"} {
		visit(t, http.MethodGet, address, nil)
	}
	status, body = visit(t, http.MethodPost, second[0]+"/cancel", nil, "Accept", "application/json", "If-Match", `"2"`)
	if status != http.StatusOK || !strings.Contains(body, `"status":"cancelled"`) {
		t.Fatalf("cancelled: %d %s", status, body)
	}
	last := await(in, ada, 3, 20*time.Second)[2]
	await(in, host, 3, 20*time.Second)
	third := links(t, last)
	if key := last.Header.Get("Message-Id"); !strings.HasPrefix(key, "<email-cancel-"+b.ID+"-v3@") || len(third) != 2 {
		t.Errorf("the last mail is %s, with the links %v", key, third)
	}

	places := map[string]string{"the logs": in.Log.Tail(1 << 30), "the database": dump(in)}
	for _, service := range stack.Services {
		metrics, err := get(t.Context(), in.AdminURL(service)+"/metrics")
		if err != nil {
			t.Fatal(err)
		}
		places["the metrics of "+service] = string(metrics)
	}
	for _, address := range []string{first[0], second[0], third[0], "/" + wrong} {
		token := address[strings.LastIndex(address, "/")+1:]
		for place, text := range places {
			if strings.Contains(text, token) || strings.Contains(text, hex.EncodeToString([]byte(token))) { // as bytea is shown
				t.Errorf("a token is in %s", place)
			}
		}
	}
}

// Who may book can't have us bomb a mailbox: of thirty bookings at once for one address five owe a
// mail, and the others are nothing. Each of the five is told, and that each is cancelled, too.
func TestMailsToOneAddressHaveALimit(t *testing.T) {
	t.Parallel()
	const victim = "victim@customer.example"
	in := install.Start(t, func(c *stack.Config) { c.Env["MAILS_PER_HOUR"] = "5" })
	var mu sync.Mutex
	var all sync.WaitGroup
	var booked []install.Booking
	for range 30 {
		all.Go(func() {
			a, err := in.Post(t.Context(), install.Request{Body: install.Seat("hall", victim, install.InDays(3))})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && a.OK():
				booked = append(booked, a.Booking)
			case err != nil || a.Status != http.StatusTooManyRequests || a.RetryAfter == "":
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
	all.Wait()
	if len(booked) != 5 {
		t.Fatalf("%d bookings", len(booked))
	}
	await(in, victim, 5, 20*time.Second)
	for _, b := range booked {
		in.Cancel(b)
	}
	await(in, victim, 10, 20*time.Second)
	if n := in.Count(`select count(*) from notifier.send_log`); n != 10 {
		t.Errorf("%d messages for five bookings and five cancellations", n)
	}
}

// dump is every row of both schemas as text.
func dump(in *install.Installation) string {
	in.T.Helper()
	rows, _ := in.DB.Admin.Query(in.T.Context(), `
		select format('select coalesce(string_agg(t::text, chr(10)), %L) from %I.%I t', '', table_schema, table_name)
		from information_schema.tables where table_schema in ('booking', 'notifier') and table_type = 'BASE TABLE'`)
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(statements) < 10 {
		in.T.Fatalf("%d tables: %v", len(statements), err)
	}
	var all strings.Builder
	for _, sql := range statements {
		var text string
		if err := in.DB.Admin.QueryRow(in.T.Context(), sql).Scan(&text); err != nil {
			in.T.Fatal(err)
		}
		all.WriteString(text)
	}
	return all.String()
}
