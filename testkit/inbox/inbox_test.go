package inbox_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/slotwise/slotwise/testkit/ca"
	"github.com/slotwise/slotwise/testkit/inbox"
)

// mail has what an attacker would try in every place that is shown.
const mail = "From: \"<script>alert(1)</script>\" <a@example.org>\r\n" +
	"To: Ann <ann@example.org>, bob@example.org\r\n" +
	"Reply-To: host@example.org\r\n" +
	"Message-ID: <%[1]s@slotwise.example>\r\n" +
	"Subject: %[1]s <b>bold</b>\r\n" +
	"Content-Type: multipart/alternative; boundary=x\r\n\r\n" +
	"--x\r\nContent-Type: text/plain\r\n\r\ntext </pre><script>alert(2)</script>\r\n" +
	"--x\r\nContent-Type: text/html\r\n\r\n<p>html<script>alert(3)</script></p>\r\n--x--\r\n"

func TestStoreSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir, 3)
	for i := range 5 {
		add(t, store, fmt.Sprintf(mail, fmt.Sprint("m", i)))
	}
	for _, litter := range []string{"0000.eml", "x.eml", "0000000000000001.new"} {
		if err := os.WriteFile(filepath.Join(dir, litter), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(store *inbox.Store) {
		t.Helper()
		page, total, unread := store.List(0, 10)
		var got []string
		for _, m := range page {
			got = append(got, strings.Fields(m.Subject)[0])
			if raw, err := store.Raw(m.ID); err != nil || !strings.Contains(string(raw), m.MessageID) {
				t.Errorf("raw %s: %v", m.ID, err)
			}
		}
		if strings.Join(got, " ") != "m4 m3 m2" || total != 3 || unread != 3 {
			t.Errorf("%v of %d, %d unread: want the newest three first", got, total, unread)
		}
	}
	check(store)
	again := open(t, dir, 3)
	check(again)
	if files, err := filepath.Glob(filepath.Join(dir, "*.eml")); err != nil || len(files) != 3+2 {
		t.Errorf("files: %v (%v)", files, err)
	}
	if err := again.Clear(); err != nil {
		t.Fatal(err)
	}
	if _, total, _ := open(t, dir, 3).List(0, 10); total != 0 {
		t.Errorf("%d mails after Clear", total)
	}
}

func TestList(t *testing.T) {
	store := open(t, t.TempDir(), 100)
	for i := range 5 {
		add(t, store, fmt.Sprintf(mail, fmt.Sprint(i)))
	}
	for _, tt := range []struct {
		start, limit int
		want         string
	}{{0, 2, "43"}, {2, 2, "21"}, {4, 2, "0"}, {5, 2, ""}, {9, 9, ""}, {0, 0, ""}, {-1, 9, "43210"}, {0, -1, ""}} {
		page, _, _ := store.List(tt.start, tt.limit)
		got := ""
		for _, m := range page {
			got += m.Subject[:1]
		}
		if got != tt.want {
			t.Errorf("List(%d, %d) = %s, want %s", tt.start, tt.limit, got, tt.want)
		}
	}
}

func TestRawOfNoMail(t *testing.T) {
	store := open(t, t.TempDir(), 1)
	for _, id := range []string{"", "..", "0000000000000001", "../../etc/passwd"} {
		if _, err := store.Raw(id); !errors.Is(err, inbox.ErrNotFound) {
			t.Errorf("Raw(%q) = %v", id, err)
		}
	}
}

// The fields are those of Mailpit's API, by name.
func TestMailpitAPI(t *testing.T) {
	web, store := serve(t)
	var empty struct{ Messages []any }
	getJSON(t, web.URL+"/api/v1/messages", &empty)
	if empty.Messages == nil {
		t.Error("messages is null when there are none")
	}
	for i := range 3 {
		add(t, store, fmt.Sprintf(mail, fmt.Sprint("m", i)))
	}
	var page struct {
		Total, Unread, Count, Start int
		MessagesCount               int `json:"messages_count"`
		MessagesUnread              int `json:"messages_unread"`
		Messages                    []map[string]any
	}
	getJSON(t, web.URL+"/api/v1/messages?start=1&limit=1", &page)
	if page.Total != 3 || page.Unread != 3 || page.Count != 1 || page.Start != 1 || page.MessagesCount != 3 || page.MessagesUnread != 3 || len(page.Messages) != 1 {
		t.Fatalf("page %+v", page)
	}
	m := page.Messages[0]
	id, _ := m["ID"].(string)
	created, _ := m["Created"].(string)
	if at, err := time.Parse(time.RFC3339Nano, created); err != nil || time.Since(at) > time.Minute {
		t.Errorf("Created %q", created)
	}
	delete(m, "ID")
	delete(m, "Created")
	got, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"Attachments":0,"Bcc":[],"Cc":[],"From":{"Address":"a@example.org","Name":"\u003cscript\u003ealert(1)\u003c/script\u003e"},` +
		`"MessageID":"m1@slotwise.example","Read":false,"ReplyTo":[{"Address":"host@example.org","Name":""}],` +
		fmt.Sprintf(`"Size":%d,`, len(mail)-2*len("%[1]s")+2*len("m1")) +
		`"Snippet":"text \u003c/pre\u003e\u003cscript\u003ealert(2)\u003c/script\u003e","Subject":"m1 \u003cb\u003ebold\u003c/b\u003e","Tags":[],` +
		`"To":[{"Address":"ann@example.org","Name":"Ann"},{"Address":"bob@example.org","Name":""}]}`
	if string(got) != want {
		t.Errorf("message\n%s\nwant\n%s", got, want)
	}
	if raw, _ := get(t, web.URL+"/api/v1/message/"+id+"/raw"); raw != fmt.Sprintf(mail, "m1") {
		t.Errorf("raw %q", raw)
	}
	if code, _, _ := do(t, http.MethodGet, web.URL+"/api/v1/message/1/raw", ""); code != http.StatusNotFound {
		t.Errorf("raw of no mail: %d", code)
	}
	if code, _, _ := do(t, http.MethodDelete, web.URL+"/api/v1/messages", ""); code != http.StatusOK {
		t.Errorf("delete: %d", code)
	}
	if _, total, _ := store.List(0, 1); total != 0 {
		t.Errorf("%d mails after DELETE", total)
	}
}

func TestPageIsHarmless(t *testing.T) {
	web, store := serve(t)
	add(t, store, fmt.Sprintf(mail, "one"))
	page, _, _ := store.List(0, 1)
	paths := map[string]string{ // and what must be shown
		"/": "one &lt;b&gt;bold", "/message/" + page[0].ID: "text &lt;/pre&gt;&lt;script&gt;alert(2)",
	}
	for path, want := range paths {
		body, header := get(t, web.URL+path)
		if strings.Contains(body, "<script") || !strings.Contains(body, want) {
			t.Errorf("%s shows %s", path, body)
		}
		if csp := header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") {
			t.Errorf("%s has the policy %q", path, csp)
		}
	}
	body, header := get(t, web.URL+"/message/"+page[0].ID+"/html")
	policy := header.Get("Content-Security-Policy")
	if !strings.Contains(body, "<p>html") || !strings.HasPrefix(policy, "sandbox") || !strings.Contains(policy, "; default-src 'none'") ||
		strings.Contains(policy, "script") || strings.Contains(policy, "same-origin") {
		t.Errorf("the HTML part: %s, policy %q", body, policy)
	}
	if _, _, unread := store.List(0, 1); unread != 0 {
		t.Error("it is still unread")
	}
	if code, _, _ := do(t, http.MethodPost, web.URL+"/clear", "https://evil.example"); code != http.StatusForbidden {
		t.Errorf("a page elsewhere may clear the inbox: %d", code)
	}
	if code, _, _ := do(t, http.MethodPost, web.URL+"/clear", ""); code != http.StatusOK {
		t.Errorf("the button: %d", code)
	}
}

// A link of the HTML part opens in a tab of its own, without the frame's sandbox: both the
// frame and the mail's own policy must let it, and neither lets more.
func TestLinksOpen(t *testing.T) {
	web, store := serve(t)
	add(t, store, fmt.Sprintf(mail, "one"))
	page, _, _ := store.List(0, 1)
	path := web.URL + "/message/" + page[0].ID
	const sandbox = "allow-popups allow-popups-to-escape-sandbox"
	if body, _ := get(t, path); !strings.Contains(body, `<iframe sandbox="`+sandbox+`" `) {
		t.Errorf("the frame: %s", body)
	}
	body, header := get(t, path+"/html")
	if policy := header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "sandbox "+sandbox+"; ") {
		t.Errorf("the policy: %s", policy)
	}
	if !strings.HasPrefix(body, `<!doctype html><base target="_blank">`) {
		t.Errorf("the mail's links have no target: %s", body)
	}
}

func TestSMTP(t *testing.T) {
	store := open(t, t.TempDir(), 10)
	authority, err := ca.New()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := authority.Issue("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a loopback socket
	if err != nil {
		t.Fatal(err)
	}
	server := inbox.NewSMTP(store, &tls.Config{Certificates: []tls.Certificate{cert}}, t.Output())
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	c, err := smtp.DialStartTLS(l.Addr().String(), &tls.Config{RootCAs: authority.Pool(), ServerName: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // a test's client
	sent := fmt.Sprintf(mail, "sent") + ".\r\n..two dots\r\n"
	if err := c.SendMail("a@example.org", []string{"ann@example.org"}, strings.NewReader(sent)); err != nil {
		t.Fatal(err)
	}
	page, total, _ := store.List(0, 10)
	if total != 1 {
		t.Fatalf("%d mails", total)
	}
	if raw, err := store.Raw(page[0].ID); err != nil || string(raw) != sent {
		t.Errorf("raw %q, %v", raw, err)
	}
	if err := c.SendMail("a@example.org", []string{"ann@example.org"}, bytes.NewReader(make([]byte, 11<<20))); err == nil {
		t.Error("a mail of 11 MiB is taken")
	}
}

func open(t *testing.T, dir string, keep int) *inbox.Store {
	t.Helper()
	store, err := inbox.Open(dir, keep)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func add(t *testing.T, store *inbox.Store, raw string) {
	t.Helper()
	if err := store.Add([]byte(raw)); err != nil {
		t.Fatal(err)
	}
}

func serve(t *testing.T) (*httptest.Server, *inbox.Store) {
	t.Helper()
	store := open(t, t.TempDir(), 100)
	web := httptest.NewServer(inbox.NewHandler(store))
	t.Cleanup(web.Close)
	return web, store
}

// do asks as a browser does on the page of origin; "" is no browser.
func do(t *testing.T, method, url, origin string) (code int, body string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if origin != "" {
		r.Header.Set("Origin", origin)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(content), resp.Header
}

func get(t *testing.T, url string) (string, http.Header) {
	t.Helper()
	code, body, header := do(t, http.MethodGet, url, "")
	if code != http.StatusOK {
		t.Fatalf("%s: %d %s", url, code, body)
	}
	return body, header
}

func getJSON(t *testing.T, url string, to any) {
	t.Helper()
	body, header := get(t, url)
	if err := json.Unmarshal([]byte(body), to); err != nil || header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s: %v in %s", url, err, body)
	}
}
