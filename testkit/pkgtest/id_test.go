package pkgtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/testkit/bustest"
)

// Issue 3 §4.6: every kind of id through a real server and back, as a message id, as a token
// of a subject and as a header, and each known again when it comes twice.
func TestEveryKindOfID(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	admin := server.JetStream(bustest.Admin)
	stream, err := admin.CreateStream(t.Context(), jetstream.StreamConfig{Name: "IDS", Subjects: []string{"ids.*"}, AllowDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	const booking = "0192a4e0-7b1c-7cc3-98c4-dc0c0c07398f"
	ids := []string{
		booking, "room-7", strings.Repeat("a", 63),
		id.Event(booking, 1), id.Event(booking, 1<<62),
		id.Reminder(booking, 3), id.Webhook(id.Event(booking, 2), "ep-1"), id.Unreadable(id.Event(booking, 4)),
		id.Notice(id.Reminder(booking, 3)),
	}
	for _, kind := range []string{"confirm", "move", "cancel"} {
		for _, host := range []bool{false, true} {
			for _, copies := range []int{0, 2, 11} {
				mail := id.Mail{Kind: kind, Booking: booking, Version: 12, Host: host, Copy: copies}.String()
				ids = append(ids, mail, id.Notice(mail))
			}
		}
	}
	for i, one := range ids {
		if err := id.Check(one); err != nil {
			t.Errorf("%s: %v", one, err)
			continue
		}
		for try, duplicate := range []bool{false, true} {
			m := nats.NewMsg("ids." + one)
			m.Header.Set(jetstream.MsgIDHeader, one)
			m.Header.Set("Slotwise-Id", one)
			ack, err := admin.PublishMsg(t.Context(), m)
			if err != nil || ack.Duplicate != duplicate || ack.Sequence != uint64(i)+1 {
				t.Fatalf("%s, try %d: %+v, %v", one, try+1, ack, err)
			}
		}
		m, err := stream.GetLastMsgForSubject(t.Context(), "ids."+one)
		if err != nil || m.Subject != "ids."+one || m.Header.Get(jetstream.MsgIDHeader) != one || m.Header.Get("Slotwise-Id") != one {
			t.Errorf("%s came back as %+v, %v", one, m, err)
		}
	}

	// And in the subjects that are made of them, through the real streams as the real users.
	declare(t, server)
	r := event.Reminder{Booking: booking, StartVersion: 3}
	m := nats.NewMsg(r.ScheduleSubject())
	m.Header.Set("Nats-Schedule", "@at "+time.Now().Add(300*time.Millisecond).UTC().Format(time.RFC3339Nano))
	m.Header.Set("Nats-Schedule-Target", r.DueSubject())
	if _, err := server.JetStream("scheduler").PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	consumer, err := server.JetStream("notifier").Consumer(t.Context(), "REMINDERS", "notifier-reminders")
	if err != nil {
		t.Fatal(err)
	}
	fired, err := consumer.Next(jetstream.FetchMaxWait(10 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if back, err := event.ParseDueSubject(fired.Subject()); err != nil || back != r {
		t.Errorf("the reminder came back as %+v, %v", back, err)
	}
	e := event.New(event.Confirmed, time.Now(), event.Data{
		Booking: booking, Version: 1, StartVersion: 1, ToldCustomer: 1, Status: event.StatusConfirmed, Resource: strings.Repeat("r", 63),
		Start: time.Now().Add(time.Hour), End: time.Now().Add(2 * time.Hour), Zone: "Europe/Berlin", Seats: 1,
	})
	m = nats.NewMsg(e.NATSSubject())
	m.Header.Set(jetstream.MsgIDHeader, e.ID)
	if m.Data, err = e.Encode(); err != nil {
		t.Fatal(err)
	}
	if ack, err := server.JetStream("relay").PublishMsg(t.Context(), m); err != nil || ack.Stream != "BOOKINGS" {
		t.Errorf("event: %+v, %v", ack, err)
	}
	for _, bad := range []string{"", "a.b", "a*", "a>", "a b", "a\tb", "a\x00b", "ä", strings.Repeat("a", id.MaxLength+1), fmt.Sprintf("a%cb", 0x7f)} {
		if id.Check(bad) == nil {
			t.Errorf("%q passes for an id", bad)
		}
	}
}
