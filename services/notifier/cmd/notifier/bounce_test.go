package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/testkit/mailtest"
	"github.com/slotwise/slotwise/testkit/seed"
)

// report is what a server writes to the return path of a mail that it could not deliver.
const report = `From: MAILER-DAEMON@mx.slotwise.example
To: %[1]s
Content-Type: multipart/report; report-type=delivery-status; boundary=b
MIME-Version: 1.0

--b
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.slotwise.example

Final-Recipient: rfc822; %[2]s
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550 5.1.1 <%[2]s>: no such mailbox

--b--
`

// takesBounces makes the notifier listen for reports.
func (w *world) takesBounces() {
	w.env["HTTP_ADDR"], w.env["BOUNCE_SECRET"], w.env["BOUNCE_DOMAIN"], w.env["DRAIN_LAG"] = freeAddr(w.t), "a secret of some length", "bounces.slotwise.example", "0s"
}

// deliver delivers a report, and returns what it was answered with; 0 when nobody listens.
func (w *world) deliver(text string) (status int, answer map[string]string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://"+w.env["HTTP_ADDR"]+"/v1/bounces", strings.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+w.env["BOUNCE_SECRET"])
	r.Header.Set("Content-Type", "message/rfc822")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode == http.StatusOK {
		err = json.Unmarshal(body, &answer)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, answer
}

// A mail that was accepted comes back: the host is told, and the next mail is not tried. Its
// return path is the same on every try.
func TestBounce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bookings.Resource(seed.Resource{ID: "room-8", Host: "host@rooms.example"})
	w.takesBounces()
	tries := make(chan string, 100) // return paths of the customer's mails
	w.mail.Script(mailtest.Fault{Phase: mailtest.RCPT, Times: 2, Reply: "451 4.7.1 greylisted", Match: func(c mailtest.Command) bool {
		if c.To[0] == "host@rooms.example" {
			return false
		}
		tries <- c.From
		return true
	}})
	times := quick()
	times.Steps = []time.Duration{50 * time.Millisecond}
	w.apply(0)
	w.serveWith(times)
	w.ready()
	b := w.bookings.Book(seed.Booking{Resource: "room-8"})
	w.relay("")
	mails := w.mail.Wait(2, soon)
	for _, m := range mails {
		if !strings.HasPrefix(m.From, "b+") || !strings.HasSuffix(m.From, "@bounces.slotwise.example") {
			t.Errorf("return path %s", m.From)
		}
	}
	returnPath := <-tries
	if second, third := <-tries, <-tries; second != returnPath || third != returnPath {
		t.Errorf("return paths of three tries: %s, %s, %s", returnPath, second, third)
	}

	key := id.Mail{Kind: "confirm", Booking: b.ID, Version: 1}.String()
	text := fmt.Sprintf(report, returnPath, b.Address)
	for _, want := range []string{"bounced", "unchanged"} {
		if status, answer := w.deliver(text); status != http.StatusOK || answer["message"] != key || answer["outcome"] != want {
			t.Errorf("answered %d %v, want %s", status, answer, want)
		}
	}
	notice := w.mail.Wait(3, soon)[2]
	if notice.To[0] != "host@rooms.example" || !strings.HasPrefix(notice.Subject, "Not delivered: Room room-8, ") ||
		!strings.Contains(notice.Text, "bounced: 550 5.1.1 <(address)>: no such mailbox") || !strings.Contains(notice.Text, b.Address) {
		t.Errorf("the notice is %s: %s\n%s", notice.To, notice.Subject, notice.Text)
	}
	if n := w.metric("slotwise_bounces_total"); n != 1 {
		t.Errorf("%.0f bounces counted", n)
	}
	w.bookings.Move(b, b.Start.Add(time.Hour))
	w.relay("again")
	w.mail.Wait(5, soon) // the host's mail about the move, and a notice about the customer's
	eventually(t, "the customer's mail about the move is refused", func() bool {
		var reason string
		err := w.db.Admin.QueryRow(t.Context(), `select reason from notifier.send_log where key = $1 and state = 'refused'`,
			id.Mail{Kind: "move", Booking: b.ID, Version: 2}.String()).Scan(&reason)
		return err == nil && strings.HasPrefix(reason, "suppressed: 550 5.1.1 <(address)>: no such mailbox since ")
	})
	w.wantMails(map[string]int{b.Address: 1, "host@rooms.example": 4})
}

// Without the secret nobody takes reports, and mails go out as ever.
func TestNoBounces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.takesBounces()
	w.env["BOUNCE_SECRET"], w.env["BOUNCE_DOMAIN"] = "", ""
	w.serve()
	w.ready()
	w.bookings.Book(seed.Booking{Resource: "room-7"})
	if m := w.mail.Wait(1, soon)[0]; m.From != "bookings@slotwise.example" {
		t.Errorf("return path %s", m.From)
	}
	if status, _ := w.deliver("x"); status != http.StatusNotFound {
		t.Errorf("somebody answers %d", status)
	}
}
