package mail

import (
	"bytes"
	"encoding/base64"
	"errors"
	"flag"
	"mime"
	netmail "net/mail"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/pkg/link"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/letter"
)

var update = flag.Bool("update", false, "write the golden files")

const booking = "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"

var renderer = Renderer{
	From:     netmail.Address{Name: "Slotwise Bookings", Address: "bookings@slotwise.example"},
	Domain:   "mail.slotwise.example",
	Links:    Links{Base: "https://book.rooms.example", Keys: testKeys},
	boundary: "boundary-of-tests",
}

var testKeys = func() link.Keys {
	keys, err := link.ParseKeys("1:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32)))
	if err != nil {
		panic(err)
	}
	return keys
}()

// hand is one of a usual booking: an hour in Berlin's winter.
func hand(role sendlog.Role, kind sendlog.Kind) sendlog.Hand {
	start := time.Date(2026, 12, 3, 13, 0, 0, 0, time.UTC)
	key := id.Mail{Kind: string(kind), Booking: booking, Version: 3, Host: role == sendlog.Host}.String()
	return sendlog.Hand{
		Message: sendlog.Message{
			Key: key, Channel: sendlog.Email, Booking: booking, Kind: kind, Version: 3, StartVersion: 3, Role: role, State: sendlog.Handed,
			Facts: sendlog.Facts{Status: "confirmed", Resource: "room-7", Start: start, End: start.Add(time.Hour), Zone: "Europe/Berlin", Seats: 2},
		},
		Token:        "5e1f7f5c-93a1-4f4e-a0c5-1c2f6f0f9a3b",
		N:            1,
		CreatedAt:    time.Date(2026, 12, 1, 10, 0, 0, 123456000, time.FixedZone("", 3600)),
		ResourceName: "Meeting room 7",
		HostAddress:  "host@rooms.example",
		Customer:     "01928c7e-0000-7abc-8def-112233445566",
		Name:         "Zoë Müller",
		Address:      "zoe@customers.example",
		Note:         "We need a projector.\nThank you!",
	}
}

func render(t *testing.T, h sendlog.Hand) []byte {
	t.Helper()
	body, err := renderer.Render(h)
	if err != nil {
		t.Fatalf("Render: %v", err)
	}
	return body
}

// parse reads a mail as a mailbox does. It must have a text and an HTML part and no other.
func parse(t *testing.T, body []byte) letter.Letter {
	t.Helper()
	l, err := letter.Parse(body)
	if err != nil {
		t.Fatalf("parse mail: %v\n%s", err, body)
	}
	kinds := []string{"text/plain", "text/html"}
	if len(l.Parts) != len(kinds) || !strings.HasPrefix(l.Header.Get("Content-Type"), "multipart/alternative;") {
		t.Fatalf("%d parts of %s", len(l.Parts), l.Header.Get("Content-Type"))
	}
	for i, p := range l.Parts {
		if p.Type != kinds[i] || p.Params["charset"] != "UTF-8" {
			t.Errorf("part %d: %s %v", i, p.Type, p.Params)
		}
	}
	l.Text, l.HTML = strings.ReplaceAll(l.Text, "\r\n", "\n"), strings.ReplaceAll(l.HTML, "\r\n", "\n")
	return l
}

// The golden files are read in review: what people get, by kind and role.
func TestGolden(t *testing.T) {
	host := func(h sendlog.Hand) sendlog.Hand { h.HostAddress = ""; return h }
	first := hand(sendlog.Customer, sendlog.Move)
	first.FirstNews = true
	reminder := hand(sendlog.Customer, sendlog.Reminder)
	reminder.Key = id.Reminder(booking, 3)
	notice := hand(sendlog.Host, sendlog.Notice)
	notice.Facts.About = id.Mail{Kind: "confirm", Booking: booking, Version: 3}.String()
	notice.Key, notice.Facts.Why = id.Notice(notice.Facts.About), "550 5.1.1 no such mailbox"
	disabled := sendlog.Hand{
		Message: sendlog.Message{
			Key:     "notice-" + id.Webhook(id.Event(booking, 3), "we_abcdefghijklmnop") + "-7",
			Channel: sendlog.Email, Kind: sendlog.Notice, Role: sendlog.Host, Endpoint: "we_abcdefghijklmnop",
			Facts: sendlog.Facts{Why: "it has only failed since 2026-11-26 09:00Z, at last with: 500 <b>out of\norder</b>"},
		},
		Token: "5e1f7f5c-93a1-4f4e-a0c5-1c2f6f0f9a3b", CreatedAt: time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC),
		HostAddress: "owner@teams.example", EndpointURL: "https://hooks.teams.example/slotwise?token=secret", EndpointAbout: "the billing team's",
	}
	tests := map[string]sendlog.Hand{
		"owner-endpoint-disabled":  disabled,
		"customer-confirm":         hand(sendlog.Customer, sendlog.Confirm),
		"customer-confirm-no-host": host(hand(sendlog.Customer, sendlog.Confirm)),
		"customer-move":            hand(sendlog.Customer, sendlog.Move),
		"customer-move-first-news": first,
		"customer-cancel":          hand(sendlog.Customer, sendlog.Cancel),
		"customer-reminder":        reminder,
		"host-confirm":             hand(sendlog.Host, sendlog.Confirm),
		"host-move":                hand(sendlog.Host, sendlog.Move),
		"host-cancel":              hand(sendlog.Host, sendlog.Cancel),
		"host-notice":              notice,
	}
	for name, h := range tests {
		t.Run(name, func(t *testing.T) {
			got := render(t, h)
			parse(t, got)
			file := filepath.Join("testdata", name+".eml")
			if *update {
				if err := os.WriteFile(file, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("mail differs from %s (write it with -update):\n%s", file, got)
			}
		})
	}
}

// Without keys, or without the address at which customers reach us, mails are as they were.
func TestMailsWithoutLinks(t *testing.T) {
	for name, links := range map[string]Links{"no settings": {}, "no keys": {Base: "https://x.example"}, "no address": {Keys: testKeys}} {
		r := renderer
		r.Links = links
		body, err := r.Render(hand(sendlog.Customer, sendlog.Confirm))
		if err != nil {
			t.Fatal(err)
		}
		p := parse(t, body)
		if strings.Contains(p.Text, "/b/") || strings.Contains(p.HTML, "<a") || !strings.Contains(p.Text, "To change or cancel, reply to this mail.") {
			t.Errorf("%s:\n%s\n%s", name, p.Text, p.HTML)
		}
	}
}

// The link opens this booking as this customer, until a month after its end; mails to the host
// never have one.
func TestLinks(t *testing.T) {
	found := regexp.MustCompile(`https://book\.rooms\.example/b/([\w-]+)`)
	for _, kind := range []sendlog.Kind{sendlog.Confirm, sendlog.Move, sendlog.Cancel, sendlog.Reminder, sendlog.Notice} {
		for _, role := range []sendlog.Role{sendlog.Customer, sendlog.Host} {
			h := hand(role, kind)
			if _, ok := words[role][kind]; !ok {
				continue
			}
			p := parse(t, render(t, h))
			for part, body := range map[string]string{"text": p.Text, "HTML": p.HTML} {
				all := found.FindAllStringSubmatch(body, -1)
				if want := role == sendlog.Customer; (len(all) == 1) != want {
					t.Errorf("%d links in the %s of the %s's %s", len(all), part, role, kind)
					continue
				}
				for _, match := range all {
					l, err := testKeys.Open(match[1], h.Facts.End)
					if err != nil || l != link.For(h.Booking, h.Customer, h.Facts.End) {
						t.Errorf("the link of the %s's %s opens %+v, %v", role, kind, l, err)
					}
				}
			}
		}
	}
	h := hand(sendlog.Customer, sendlog.Confirm)
	h.Customer = "" // can't be, and would be no reason to send nothing
	if p := parse(t, render(t, h)); strings.Contains(p.Text, "/b/") {
		t.Errorf("a link for nobody:\n%s", p.Text)
	}
}

func TestEachTryIsTheSameMail(t *testing.T) {
	first := hand(sendlog.Customer, sendlog.Confirm)
	again := first
	again.Token, again.N, again.HandedAt = "9b2d6a52-0000-4000-8000-000000000000", 2, first.CreatedAt.Add(time.Hour)
	a, b := render(t, first), render(t, again)
	if !bytes.Equal(a, render(t, first)) {
		t.Error("one hand gives two mails")
	}
	if !bytes.Equal(bytes.ReplaceAll(a, []byte(first.Token), []byte(again.Token)), b) {
		t.Errorf("two tries differ in more than the token:\n%s\n%s", a, b)
	}
}

func TestB81HeadersOfEveryMail(t *testing.T) {
	random := renderer
	random.boundary = ""
	h := hand(sendlog.Customer, sendlog.Confirm)
	boundaries := map[string]bool{}
	for range 3 {
		body, err := random.Render(h)
		if err != nil {
			t.Fatal(err)
		}
		p := parse(t, body)
		_, params, _ := mime.ParseMediaType(p.Header.Get("Content-Type"))
		boundaries[params["boundary"]] = true
		if got, want := p.Header.Get("Message-ID"), "<email-confirm-"+booking+"-v3@mail.slotwise.example>"; got != want {
			t.Errorf("Message-ID = %q, want %q", got, want)
		}
		if got, want := p.Header.Get("Date"), "Tue, 01 Dec 2026 09:00:00 +0000"; got != want {
			t.Errorf("Date = %q, want %q: the row's, whenever it is tried", got, want)
		}
	}
	if len(boundaries) != 3 {
		t.Errorf("boundaries of three mails: %v", boundaries)
	}
}

func TestB82NobodyAnswersByMachine(t *testing.T) {
	p := parse(t, render(t, hand(sendlog.Customer, sendlog.Reminder)))
	if got := p.Header.Get("Auto-Submitted"); got != "auto-generated" {
		t.Errorf("Auto-Submitted = %q", got)
	}
	if got := p.Header.Get("X-Auto-Response-Suppress"); got != "All" {
		t.Errorf("X-Auto-Response-Suppress = %q", got)
	}
}

func TestAnswersGoToTheOtherSide(t *testing.T) {
	tests := map[string]struct {
		role     sendlog.Role
		host     string
		to, want string
	}{
		"customer's":            {sendlog.Customer, "host@rooms.example", `"Zoe" <zoe@customers.example>`, "<host@rooms.example>"},
		"customer's, no host":   {sendlog.Customer, "", `"Zoe" <zoe@customers.example>`, ""},
		"customer's, host lost": {sendlog.Customer, "not an address", `"Zoe" <zoe@customers.example>`, ""},
		"host's copy":           {sendlog.Host, "host@rooms.example", "<host@rooms.example>", `"Zoe" <zoe@customers.example>`},
		"notice":                {sendlog.Host, "host@rooms.example", "<host@rooms.example>", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := hand(tt.role, sendlog.Confirm)
			if name == "notice" {
				h.Kind = sendlog.Notice
			}
			h.HostAddress, h.Name = tt.host, "Zoe"
			p := parse(t, render(t, h))
			if to := p.Header.Get("To"); to != tt.to {
				t.Errorf("To = %q, want %q", to, tt.to)
			}
			if got := p.Header.Get("Reply-To"); got != tt.want {
				t.Errorf("Reply-To = %q, want %q", got, tt.want)
			}
			if read := !strings.Contains(p.Text, "Nobody reads answers"); read != (tt.want != "") {
				t.Errorf("the text says something else about answers:\n%s", p.Text)
			}
		})
	}
}

func TestB60B79AddressesThatSMTPCannotCarry(t *testing.T) {
	for _, bad := range []string{
		"", "a", "a@", "@b.example", "a b@c.example", "a@b.example>\r\nDATA\r\nx", "a@b.example\nBcc: x@evil.example",
		"a@b.example, c@d.example", "Name <a@b.example>", "a@b.example (comment)", "ä@b.example", "foo@bar.com\u00d7",
		"\" \"@b.example", "a@b.example>", strings.Repeat("a", 250) + "@b.example",
	} {
		h := hand(sendlog.Customer, sendlog.Confirm)
		h.Address = bad
		body, err := renderer.Render(h)
		if !errors.Is(err, ErrAddress) || body != nil {
			t.Errorf("Render to %q = %d bytes, %v, want ErrAddress", bad, len(body), err)
		}
		if err != nil && len(bad) > 1 && strings.Contains(err.Error(), bad) {
			t.Errorf("the error repeats the address: %v", err)
		}
	}
	for _, good := range []string{"a@b.example", "a+b@c.example", "o'neil@b.example", "\"a@b\"@x.example"} {
		h := hand(sendlog.Customer, sendlog.Confirm)
		h.Address = good
		if _, err := renderer.Render(h); err != nil {
			t.Errorf("Render to %q = %v", good, err)
		}
	}
}

func TestB61LineBreaksNeverMakeAHeader(t *testing.T) {
	h := hand(sendlog.Customer, sendlog.Confirm)
	h.Name = "A\nBcc: x@evil.example"
	h.ResourceName = "Cut\r\n\r\n<b>"
	h.Note = "\r\n.\r\nMAIL FROM:<x@evil.example>"
	body := render(t, h)
	p := parse(t, body)
	checkEnvelope(t, p)
	if got, want := p.Header.Get("To"), `"A Bcc: x@evil.example" <zoe@customers.example>`; got != want {
		t.Errorf("To = %q, want %q", got, want)
	}
	if got, want := p.Subject, "Confirmed: Cut <b>, Thu 3 Dec 2026, 14:00"; got != want {
		t.Errorf("Subject = %q, want %q", got, want)
	}
	if bytes.Contains(body, []byte("\r\n.\r\n")) {
		t.Log("a lone dot stands in the body; the dialogue stuffs it")
	}
}

// checkEnvelope fails unless the mail has each header once, one recipient and no copy.
func checkEnvelope(t *testing.T, p letter.Letter) {
	t.Helper()
	for name, values := range p.Header {
		if len(values) != 1 {
			t.Errorf("header %s stands %d times", name, len(values))
		}
		if !slices.Contains([]string{
			"Auto-Submitted", "Content-Type", "Date", "From", "Message-Id", "Mime-Version",
			"Reply-To", "Slotwise-Hand", "Subject", "To", "X-Auto-Response-Suppress",
		}, name) {
			t.Errorf("header %s: %q", name, values)
		}
	}
	for name, want := range map[string]string{"To": "zoe@customers.example", "From": "bookings@slotwise.example", "Reply-To": "host@rooms.example"} {
		list, err := p.Header.AddressList(name)
		if err != nil || len(list) != 1 || list[0].Address != want {
			t.Errorf("%s = %v, %v, want one address, %s", name, list, err, want)
		}
	}
}

func TestB64LongSubject(t *testing.T) {
	h := hand(sendlog.Customer, sendlog.Confirm)
	for offset := range 30 { // each offset may put the fold elsewhere
		h.ResourceName = strings.Repeat("x", offset) + strings.Repeat("Grüße 🎉 ", 40)[:300-offset] // may cut a rune
		h.ResourceName = strings.TrimSpace(strings.ToValidUTF8(h.ResourceName, ""))
		body := render(t, h)
		checkLines(t, body)
		if got, want := parse(t, body).Subject, "Confirmed: "+h.ResourceName+", Thu 3 Dec 2026, 14:00"; got != want {
			t.Errorf("Subject = %q, want %q", got, want)
		}
	}
}

var encodedWord = regexp.MustCompile(`=\?[^? ]+\?[bqBQ]\?[^? ]*\?=`)

// checkLines fails on a line that SMTP or RFC 2047 §2 does not allow.
func checkLines(t *testing.T, body []byte) {
	t.Helper()
	head := true
	for line := range strings.SplitSeq(string(body), "\r\n") {
		head = head && line != ""
		switch {
		case strings.ContainsAny(line, "\r\n\x00"):
			t.Errorf("bare line break or null in %q", line)
		case len(line) > 998:
			t.Errorf("line of %d bytes", len(line))
		case head && encodedWord.MatchString(line) && len(line) > 76:
			t.Errorf("header line with encoded words of %d bytes: %q", len(line), line)
		case head && strings.TrimSpace(line) == "" && line != "":
			t.Errorf("header line of spaces only")
		}
		for _, word := range encodedWord.FindAllString(line, -1) {
			if head && len(word) > 75 {
				t.Errorf("encoded word of %d bytes", len(word))
			}
		}
	}
}

func TestB83TypedTextIsNoMarkup(t *testing.T) {
	const link = `</p><a href="https://evil.example">verify</a>`
	h := hand(sendlog.Customer, sendlog.Confirm)
	h.Name, h.Note, h.ResourceName = link, "javascript:alert(1)\n"+link, `"><img src=x onerror=alert(1)>`
	p := parse(t, render(t, h))
	for _, tag := range []string{"<img", "evil.example\""} {
		if strings.Contains(p.HTML, tag) {
			t.Errorf("the HTML part has %q:\n%s", tag, p.HTML)
		}
	}
	if n := strings.Count(p.HTML, "<a"); n != 1 {
		t.Errorf("the HTML part has %d links, want its own:\n%s", n, p.HTML)
	}
	if n := strings.Count(p.HTML, "&lt;/p&gt;&lt;a href="); n != 2 {
		t.Errorf("the HTML part shows the text %d times, want 2:\n%s", n, p.HTML)
	}
	if n := strings.Count(p.Text, link); n != 2 {
		t.Errorf("the text part has the text unchanged %d times, want 2:\n%s", n, p.Text)
	}
}

func TestTextThatReordersIsDropped(t *testing.T) {
	h := hand(sendlog.Customer, sendlog.Confirm)
	h.Name, h.ResourceName = "A\u202eB\u2066C", "=?utf-8?q?Free_money?="
	p := parse(t, render(t, h))
	if !strings.Contains(p.Text, "Hello ABC,") {
		t.Errorf("text:\n%s", p.Text)
	}
	if got := p.Subject; strings.Contains(got, "Free money") {
		t.Errorf("Subject = %q: typed text was decoded", got)
	}
}

func TestUnknownKind(t *testing.T) {
	for role, kind := range map[sendlog.Role]sendlog.Kind{
		sendlog.Host:     sendlog.Reminder, // reminders are the customer's
		sendlog.Customer: sendlog.Notice,
		"":               sendlog.WebhookFor,
	} {
		if _, err := renderer.Render(hand(role, kind)); err == nil {
			t.Errorf("a mail of kind %s for role %q", kind, role)
		}
	}
}

func FuzzRender(f *testing.F) {
	f.Add("Zoë", "note", "Room")
	f.Add("A\r\nBcc: x@evil.example", "\r\n.\r\n", "=?utf-8?q?=0D=0A?=")
	f.Add(strings.Repeat(" ", 200), strings.Repeat("x", 2000), strings.Repeat("🎉", 200))
	f.Add("\"\\", "\x00\xff", "a,b;c:<d>")
	tag := regexp.MustCompile(`<[^>]*>?`)
	c, err := renderer.compose(hand(sendlog.Customer, sendlog.Confirm)) // a note of two lines, and a link
	if err != nil {
		f.Fatal(err)
	}
	_, usual, err := c.bodies()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name, note, resource string) {
		h := hand(sendlog.Customer, sendlog.Confirm)
		h.Name, h.Note, h.ResourceName = name, note, resource
		body := render(t, h)
		checkLines(t, body)
		p := parse(t, body)
		checkEnvelope(t, p)
		for _, typed := range []string{p.Text, p.HTML} {
			if strings.ContainsRune(typed, 0) {
				t.Error("a null in the body")
			}
		}
		for _, tag := range tag.FindAllString(p.HTML, -1) {
			if !strings.Contains(usual, tag) {
				t.Errorf("tag %q in the HTML part", tag)
			}
		}
	})
}
