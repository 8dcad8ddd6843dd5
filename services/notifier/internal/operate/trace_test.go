package operate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/pkg/ops/message"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/seed"
)

// publish does what the relay does with the last event of b.
func (s served) publish(b seed.Booking) {
	s.t.Helper()
	body, err := b.Event.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.bus.JetStream("relay").Publish(s.t.Context(), b.Event.NATSSubject(), body, jetstream.WithMsgID(b.Event.ID)); err != nil {
		s.t.Fatal(err)
	}
	s.exec(`update booking.outbox_events set published_at = now() where message_id = $1`, b.Event.ID)
}

// schedule does what the scheduler does for the start of b.
func (s served) schedule(b seed.Booking) {
	s.t.Helper()
	r := event.Reminder{Booking: b.ID, StartVersion: b.StartVersion}
	m := nats.NewMsg(r.ScheduleSubject())
	m.Header.Set(jetstream.ScheduleHeader, "@at "+b.RemindAt.Format(time.RFC3339Nano))
	m.Header.Set(jetstream.ScheduleTargetHeader, r.DueSubject())
	if _, err := s.bus.JetStream("scheduler").PublishMsg(s.t.Context(), m); err != nil {
		s.t.Fatal(err)
	}
}

// story is a trace in lines: the verdicts.
func (s served) story(booking string) string {
	s.t.Helper()
	trace := must[message.Trace](s, "ops.get.trace", booking)
	var lines []string
	for _, m := range trace.Messages {
		lines = append(lines, m.Key+" "+m.Verdict)
	}
	for _, o := range trace.Owed {
		lines = append(lines, fmt.Sprintf("%s v%d %s %s", o.Kind, o.Version, o.Role, o.Verdict))
	}
	return strings.Join(lines, "\n")
}

// told fails unless the story has the parts, in that order.
func (s served) told(booking string, parts ...string) {
	s.t.Helper()
	story := s.story(booking)
	rest := story
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			s.t.Errorf("not told in its place: %s\nin\n%s", part, story)
			return
		}
		rest = after
	}
}

func TestTraceOfALife(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := s.Book(seed.Booking{Resource: resource, Lead: 24 * time.Hour})
	s.told(b.ID, "mail v1 customer not planned yet: the relay has not published v1", "mail v1 host not planned yet", "reminder v1 customer due at", "not scheduled")

	s.publish(b)
	s.schedule(b)
	s.told(b.ID, "mail v1 customer not planned yet: v1 was published", "reminder v1 customer scheduled for "+b.RemindAt.UTC().Format("2006-01-02 15:04:05Z"))

	customer := s.planned(b)[0]
	s.told(b.ID, customer+" waiting: due since")
	s.ended(sendlog.NoAnswer, "no answer after the dot")
	s.told(b.ID, customer+" unknown: no answer to the hand of")

	b = s.Move(b, b.Start.Add(time.Hour))
	s.publish(b)
	moved := s.planned(b)[0]
	s.told(b.ID, moved+" waiting: quiet until", "because "+customer+" may still arrive")
	s.dueNow()
	for range 2 { // v1 is skipped, then v2 is sent
		if hands, _, err := s.log.Hand(t.Context(), 10, 10); err != nil {
			t.Fatal(err)
		} else if len(hands) > 0 {
			results := make([]sendlog.Result, len(hands))
			for i, h := range hands {
				results[i] = sendlog.Result{Key: h.Key, Token: h.Token, Outcome: sendlog.Accepted, Answer: "250 ok"}
			}
			if _, err := s.log.Write(t.Context(), results); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.told(b.ID, customer+" skipped: superseded by v2, maybe delivered (1 unknown mark); its successor "+moved+": sent", "(1 try)")

	s.exec(`select notifier.resend(jsonb_build_object('booking', $1::text, 'role', 'customer'), 'anna')`, b.ID)
	s.exec(`select notifier.pause('mail', 'ben')`)
	trace := must[message.Trace](s, "ops.get.trace", strings.ToUpper(b.ID)+"\n")
	if got := keys(trace.Messages); !strings.Contains(got, id.Mail{Kind: "confirm", Booking: b.ID, Version: 2, Copy: 2}.String()) {
		t.Errorf("messages %s", got)
	}
	if f := trace.Facts; f == nil || f.Version != 2 || f.StartVersion != 2 || f.ToldHost != 2 || f.Status != "confirmed" || !f.Start.Equal(b.Start) || !f.HasHost || f.Erased {
		t.Errorf("facts %+v", f)
	}
	if len(trace.Outbox) != 2 || trace.Outbox[0].MessageID != id.Event(b.ID, 1) || trace.Outbox[1].PublishedAt == nil {
		t.Errorf("outbox %+v", trace.Outbox)
	}
	if e := trace.Events; e.Error != "" || len(e.Found) != 2 || e.Found[0].ID != id.Event(b.ID, 1) || e.Found[1].Sequence != 2 {
		t.Errorf("events %+v", e)
	}
	if r := trace.Reminders; r.Error != "" || len(r.Found) != 1 || r.Found[0].Schedule == nil || r.Found[0].Subject != "reminder.at."+b.ID+".1" {
		t.Errorf("reminders %+v", r)
	}
	first := trace.Messages[slices.IndexFunc(trace.Messages, func(m message.Message) bool { return m.Key == customer })]
	if h := first.Hands; len(h) != 1 || h[0].N != 1 || !h[0].Unknown || h[0].Outcome != "unknown" || h[0].Answer == "" || h[0].Token == "" || h[0].EndedAt == nil {
		t.Errorf("hands %+v", h)
	}
	if o := trace.Operations; len(o) != 2 || o[0].Operator != "anna" || o[0].Operation != "resend" || *o[0].Affected != 1 || o[1].Operation != "pause" {
		t.Errorf("operations %+v", o)
	}
	if trace.At.Location() != time.UTC || trace.Messages[0].CreatedAt.Location() != time.UTC {
		t.Error("times are not in UTC")
	}
	if trace.Cut {
		t.Error("it is cut")
	}
	m, err := s.nc.Request("ops.get.trace", []byte(b.ID), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, person := range []string{b.Name, b.Address, "host@rooms.example", b.Customer} {
		if strings.Contains(string(m.Data), person) {
			t.Errorf("the trace tells %q", person)
		}
	}
}

func TestTraceOfNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	trace := must[message.Trace](s, "ops.get.trace", "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f")
	if trace.Facts != nil || len(trace.Messages)+len(trace.Owed)+len(trace.Outbox)+len(trace.Events.Found) != 0 || trace.Messages == nil || trace.Owed == nil {
		t.Errorf("trace %+v", trace)
	}
}

func TestTraceOfTheErased(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b, key := s.booked()
	s.Erase(b)
	if hands, _, err := s.log.Hand(t.Context(), 10, 10); err != nil || len(hands) != 0 {
		t.Fatalf("%d in hand: %v", len(hands), err)
	}
	s.told(b.ID, key+" skipped: erased")
	if strings.Contains(s.story(b.ID), "not planned") {
		t.Errorf("something is owed to somebody erased:\n%s", s.story(b.ID))
	}
}

func TestB15TraceOfAnUnreadableEvent(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := s.Book(seed.Booking{Resource: resource})
	key := id.Unreadable(b.Event.ID)
	_, err := s.log.Plan(t.Context(), []sendlog.Message{{
		Key: key, Channel: sendlog.Event, Kind: sendlog.Unreadable, Urgency: sendlog.UrgentBacklog, State: sendlog.Held, Reason: "unreadable event: unknown type", DueAt: time.Now(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.told(b.ID, key+" held: unreadable event: unknown type", "mail v1 customer not planned: the event of v1 could not be read, see "+key)
	must[message.Change](s, "ops.do.dev.release", message.Order{Filter: message.Filter{Keys: []string{key}}})
	s.told(b.ID, key+" waiting for the audit")
}

// Without its streams a trace still tells what PostgreSQL knows, and that they are away.
func TestTraceWithoutStreams(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := s.Book(seed.Booking{Resource: resource, Lead: 24 * time.Hour})
	key := s.planned(b)[0]
	admin := s.bus.JetStream("admin")
	for _, stream := range []string{topology.Bookings, topology.Reminders} {
		if err := admin.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	s.told(b.ID, key+" waiting: due since", "whether it is scheduled is not known: the stream REMINDERS is not there")
	if e := must[message.Trace](s, "ops.get.trace", b.ID).Events; e.Error != "the stream BOOKINGS is not there" {
		t.Errorf("events %+v", e)
	}
}

// However much there is to tell, the answer fits into a NATS message.
func TestTraceFits(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b, key := s.booked()
	s.exec(`insert into notifier.send_log (key, channel, booking, kind, version, role, copy, urgency, state, reason, due_at)
	        select $1 || '-c' || n, 'email', booking, kind, 1, role, n, 0, 'refused', repeat(chr(1), 1024), now()
	        from notifier.send_log, generate_series(2, 120) n where key = $1`, key)
	s.exec(`insert into notifier.hands (key, token, n, handed_at, ended_at, outcome, answer)
	        select key, gen_random_uuid(), n, now(), clock_timestamp(), 'refused', repeat(chr(1), 1024) from notifier.send_log, generate_series(1, 12) n where role = 'customer'`)
	s.exec(`update booking.outbox_events set last_error = repeat('€', 100000)`)
	trace := must[message.Trace](s, "ops.get.trace", b.ID)
	if !trace.Cut || len(trace.Messages) < 10 {
		t.Fatalf("cut %t, %d messages", trace.Cut, len(trace.Messages))
	}
	if hands := trace.Messages[0].Hands; len(hands) == 0 || hands[len(hands)-1].N != 12 {
		t.Errorf("hands %+v: the last one is missing", hands)
	}
}

// The cause is seen in one look: which mail, which try, the server's code and words, and when;
// and still no person.
func TestB153TheCauseIsSeen(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b, key := s.booked()
	s.customerOnly()
	for range 2 {
		s.ended(sendlog.Again, "451 4.7.1 greylisted")
		s.dueNow()
	}
	s.ended(sendlog.Rejected, "550 5.1.1 no such user")
	trace := must[message.Trace](s, "ops.get.trace", b.ID)
	m := trace.Messages[0]
	if m.Key != key || m.Kind != "confirm" || m.Version != 1 || m.Tries != 3 || m.Attempts != 2 || m.Reason != "550 5.1.1 no such user" || m.AnsweredAt == nil {
		t.Errorf("message %+v", m)
	}
	var hands []string
	for _, h := range m.Hands {
		hands = append(hands, fmt.Sprint(h.N, " ", h.Outcome, " ", h.Answer, " ", h.EndedAt != nil))
	}
	want := []string{"1 planned 451 4.7.1 greylisted true", "2 planned 451 4.7.1 greylisted true", "3 refused 550 5.1.1 no such user true"}
	if !slices.Equal(hands, want) {
		t.Errorf("hands %q, want %q", hands, want)
	}
	text := s.slotwise(0, "trace", b.ID)
	s.says(text, key+"  refused 20", ": 550 5.1.1 no such user", "451 4.7.1 greylisted")
	if strings.Contains(text, b.Address) || strings.Contains(text, b.Name) {
		t.Errorf("it tells who:\n%s", text)
	}
}
