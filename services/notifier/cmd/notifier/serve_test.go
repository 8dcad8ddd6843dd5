package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/mailtest"
	"github.com/slotwise/slotwise/testkit/proxy"
	"github.com/slotwise/slotwise/testkit/seed"
)

// Issue 3 §4.10: NATS is away while 200 bookings come in: the audit sees to 200 mails; when
// NATS is back the stream fills and no second mail goes.
func TestNATSAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(0)
	w.bus.Stop()
	w.serve()
	want := map[string]int{}
	for range 200 {
		want[w.bookings.Book(seed.Booking{Resource: "room-7"}).Address] = 1
	}
	w.mail.Wait(200, soon)
	w.wantMails(want)
	if status, why := w.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(why, "nats") {
		t.Errorf("/readyz without NATS = %d %q, want 503 that names it", status, why)
	}
	if status, why := w.get("/livez"); status != http.StatusOK {
		t.Errorf("/livez without NATS = %d %q", status, why)
	}

	w.bus.Start()
	w.ready()
	w.relay("")
	w.settled()
	if n := w.bus.Messages(t.Context(), topology.Bookings); n != 200 {
		t.Errorf("%d messages in the stream, want 200", n)
	}
	w.wantMails(want)
	w.wantStates(map[sendlog.State]int{sendlog.Sent: 200})
	if n := w.metric("slotwise_audit_planned_total"); n != 200 {
		t.Errorf("the audit has counted %.0f, want 200", n)
	}
}

// B39: the store is wiped with a third of the events planned, a third unread and a third not
// relayed.
func TestB39WipedStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(0)
	w.serve()
	w.ready()
	want := map[string]int{}
	book := func() {
		for range 10 {
			want[w.bookings.Book(seed.Booking{Resource: "room-7"}).Address] = 1
		}
	}
	book()
	w.relay("")
	w.settled()
	book()
	w.relay("again") // what the planner has not read when the store goes
	w.bus.Wipe()
	book()
	w.mail.Wait(30, soon)
	w.apply(0)
	w.ready()
	w.relay("")
	w.settled()
	w.wantMails(want)
}

// B58: nothing is there when the service starts. It waits, says what is missing, and works as
// soon as all is there, with no restart.
func TestB58StartsBeforeEverythingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bus.Stop()
	w.mail.Stop()
	server, err := url.Parse(w.db.URL("slotwise_notifier"))
	if err != nil {
		t.Fatal(err)
	}
	p := proxy.New(t, server.Host)
	p.Refuse()
	w.env["DATABASE_URL"] = p.URL(w.db.URL("slotwise_notifier"))
	w.serve()
	// Each name appears when the part that needs it has begun to wait.
	eventually(t, "/readyz names all that is missing", func() bool {
		status, why := w.get("/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(why, "postgres:") &&
			strings.Contains(why, "nats:") && strings.Contains(why, "notifier:")
	})
	if status, why := w.get("/livez"); status != http.StatusOK {
		t.Errorf("/livez = %d %q", status, why)
	}
	b := w.bookings.Book(seed.Booking{Resource: "room-7"})
	p.Accept()
	w.bus.Start()
	w.ready() // although neither streams nor a mail server are there
	w.mail.Start()
	w.apply(0)
	w.relay("")
	w.mail.Wait(1, soon)
	w.settled()
	w.wantMails(map[string]int{b.Address: 1})
}

// B41: ten recipients who are to be tried again much later hold up nobody.
func TestB41OthersGoAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mail.Script(mailtest.Fault{Phase: mailtest.RCPT, To: "@slow.example", Reply: "451 4.7.1 greylisted"})
	w.apply(10)
	times := quick()
	times.Steps = []time.Duration{30 * time.Minute}
	w.serveWith(times)
	w.ready()
	for i := range 10 {
		w.bookings.Book(seed.Booking{Resource: "room-7", Address: string(rune('a'+i)) + "@slow.example"})
	}
	w.relay("")
	w.mail.WaitCounts("ten tries", soon, func(c mailtest.Counts) bool { return c.RCPT >= 10 })
	b := w.bookings.Book(seed.Booking{Resource: "room-7"})
	w.relay("again")
	w.mail.Wait(1, soon)
	w.settled()
	w.wantMails(map[string]int{b.Address: 1})
	w.wantStates(map[sendlog.State]int{sendlog.Planned: 10, sendlog.Sent: 1})
}

// B45, B84: the mail server is away: everything is planned, nothing is tried, given up or held.
func TestB45MailServerAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mail.Stop()
	w.apply(0)
	w.serve()
	w.ready()
	want := map[string]int{}
	for range 20 {
		want[w.bookings.Book(seed.Booking{Resource: "room-7"}).Address] = 1
	}
	w.relay("")
	w.settled()
	w.wantStates(map[sendlog.State]int{sendlog.Planned: 20})
	w.mail.Start()
	w.mail.Wait(20, soon)
	w.wantMails(want)
	var tries int
	if err := w.db.Admin.QueryRow(t.Context(), `select coalesce(max(n), 0) from notifier.hands`).Scan(&tries); err != nil || tries > 1 {
		t.Errorf("a row was handed %d times, %v, want once", tries, err)
	}
}

// Issue 3 §4.9: a note changed, and an address corrected, while the confirmation waits.
func TestChangesWhileTheConfirmationWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mail.Stop()
	w.apply(0)
	w.serve()
	w.ready()
	noted := w.bookings.Book(seed.Booking{Resource: "room-7"})
	w.bookings.Annotate(noted, "by the window, please")
	typo := w.bookings.Book(seed.Booking{Resource: "room-7", Address: "typo@customers.example"})
	right := w.bookings.Readdress(typo, "right@customers.example")
	w.relay("")
	w.settled()
	w.mail.Start()
	mails := w.mail.Wait(2, soon)
	w.wantStates(map[sendlog.State]int{sendlog.Sent: 2, sendlog.Skipped: 1})
	w.wantMails(map[string]int{noted.Address: 1, right.Address: 1})
	for _, m := range mails {
		if !strings.HasPrefix(m.Subject, "Confirmed: Meeting room 7, ") {
			t.Errorf("subject %q", m.Subject)
		}
		if m.To[0] == noted.Address && !strings.Contains(m.Text, "by the window, please") {
			t.Errorf("the note is missing:\n%s", m.Text)
		}
	}
}

// Issue 3 §4.5, B22, B23: two notifiers, every event twice, and the audits: each mail once.
func TestB23TwoNotifiers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(0)
	w.serve()
	w.env["ADMIN_ADDR"] = freeAddr(t)
	w.serve()
	w.ready()
	want := map[string]int{}
	for range 50 {
		want[w.bookings.Book(seed.Booking{Resource: "room-7"}).Address] = 1
	}
	w.relay("")
	w.relay("again")
	w.mail.Wait(50, soon)
	w.settled()
	eventually(t, "the audits have passed everything", func() bool {
		var behind int
		err := w.db.Admin.QueryRow(t.Context(), `select count(*) from booking.outbox_events, notifier.progress where id > mark`).Scan(&behind)
		return err == nil && behind == 0
	})
	w.wantMails(want)
	w.wantStates(map[sendlog.State]int{sendlog.Sent: 50})
}

// B85: a mail that can't be rendered is held with the reason; the others go.
func TestB85MailThatCannotBeRenderedIsHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bookings.Resource(seed.Resource{ID: "crater", Zone: "Mars/Olympus"})
	w.serve()
	w.bookings.Book(seed.Booking{Resource: "crater"})
	good := w.bookings.Book(seed.Booking{Resource: "room-7"})
	w.wantStates(map[sendlog.State]int{sendlog.Held: 1, sendlog.Sent: 1})
	w.wantMails(map[string]int{good.Address: 1})
	var reason string
	err := w.db.Admin.QueryRow(t.Context(), `select reason from notifier.send_log where state = 'held'`).Scan(&reason)
	if err != nil || !strings.Contains(reason, "unknown time zone") {
		t.Errorf("held because of %q, %v", reason, err)
	}
}

func TestReminderThatFiresIsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(0)
	w.serve()
	w.ready()
	b := w.bookings.Book(seed.Booking{Resource: "room-7", Start: time.Now().Add(time.Hour), Lead: time.Hour - time.Second})
	due := event.Reminder{Booking: b.ID, StartVersion: 1}.DueSubject()
	if _, err := w.bus.JetStream(bustest.Admin).Publish(t.Context(), due, nil); err != nil {
		t.Fatal(err)
	}
	for _, m := range w.mail.Wait(2, soon) { // the confirmation is the audit's: nobody relays it
		if strings.HasPrefix(m.Subject, "Reminder: ") && m.MessageID != id.Reminder(b.ID, 1)+"@slotwise.example" {
			t.Errorf("Message-ID of the reminder = %q", m.MessageID)
		}
	}
	w.wantMails(map[string]int{b.Address: 2})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	w.ready()
	for _, name := range []string{
		"slotwise_messages", "slotwise_messages_overdue", "slotwise_unknown_marks_total",
		"slotwise_audit_planned_total", "slotwise_audit_lag_seconds", "slotwise_postgres_pool_in_use",
	} {
		w.metric(name)
	}
}

// What an operator lets go goes at once, and not when a sender happens to look.
func TestResumeWakesTheSender(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(0)
	times := quick()
	times.Poll = time.Hour
	if _, err := w.db.Admin.Exec(t.Context(), `select notifier.pause('mail', 'anna')`); err != nil {
		t.Fatal(err)
	}
	w.serveWith(times)
	w.ready()
	w.bookings.Book(seed.Booking{Resource: "room-7"})
	w.wantStates(map[sendlog.State]int{sendlog.Planned: 1})
	time.Sleep(500 * time.Millisecond) //nolint:forbidigo // nothing shows that the sender has looked, found the switch and sleeps
	nc := w.bus.Connect("dev")
	if m, err := nc.Request("ops.do.dev.resume", []byte("mail"), soon); err != nil || m.Header.Get(micro.ErrorHeader) != "" {
		t.Fatalf("resume: %v, %v", m, err)
	}
	w.mail.Wait(1, soon)
}
