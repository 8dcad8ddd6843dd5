package sendlog_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/seed"
)

// gone ends a hand so: its address refused for good.
func (f fixture) gone(h sendlog.Hand) {
	f.t.Helper()
	result := sendlog.Result{Key: h.Key, Token: h.Token, Outcome: sendlog.Rejected, Answer: "550 5.1.1 no such user", Gone: h.To()}
	if _, err := f.Write(f.ctx(), []sendlog.Result{result}); err != nil {
		f.t.Fatal(err)
	}
}

// booked books with an address and returns the booking's id.
func (f fixture) booked(address string) string {
	f.t.Helper()
	person := uuid.NewSHA1(uuid.NameSpaceURL, []byte(strings.ToLower(address))).String()
	b := f.seed.Book(seed.Booking{Resource: "room-7", Address: address, Customer: person})
	f.bookings[b.ID] = b
	return b.ID
}

func (f fixture) lift(address string) (lifted bool) {
	f.t.Helper()
	if err := f.db.Pool("slotwise_notifier").QueryRow(f.ctx(), `select notifier.lift($1, 'anna')`, address).Scan(&lifted); err != nil {
		f.t.Fatal(err)
	}
	return lifted
}

// B74: an address that refused for good gets nothing more. What it would have got stands
// refused, with the reason, and can be planned again once the suppression is lifted.
func TestB74Suppressed(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	f.hostless()
	first, later := f.booked("Ada@Gone.example"), f.booked("ada@gone.EXAMPLE")
	confirm := mail(first, sendlog.Confirm, 1)
	f.plan(confirm)
	f.gone(f.one())
	f.want(confirm.Key, "refused: 550 5.1.1 no such user")
	var suppression string
	err := f.db.Admin.QueryRow(f.ctx(), `select concat_ws(' ', address, reason, key) from notifier.suppressions where since > now() - interval '1 minute'`).Scan(&suppression)
	if want := "ada@gone.example 550 5.1.1 no such user " + confirm.Key; err != nil || suppression != want {
		t.Fatalf("suppression %q, want %q: %v", suppression, want, err)
	}

	reminder, other, elsewhere := mail(first, sendlog.Reminder, 1), mail(later, sendlog.Confirm, 1), mail(f.booked("ada@gone.example.org"), sendlog.Confirm, 1)
	f.plan(reminder, other, elsewhere)
	f.write(f.one(), sendlog.Accepted, "250 ok")
	f.want(elsewhere.Key, "sent")
	for _, key := range []string{reminder.Key, other.Key} {
		if got := f.state(key); !strings.HasPrefix(got, "refused: suppressed: 550 5.1.1 no such user since 20") || !strings.HasSuffix(got, "Z") {
			t.Errorf("%s is %q", key, got)
		}
	}
	if n := f.number(`select count(*) from notifier.hands`); n != 2 {
		t.Errorf("%d hands, want 2: a suppressed mail is not tried", n)
	}

	if f.lift("somebody@else.example") {
		t.Error("what is not suppressed is lifted")
	}
	if !f.lift(" ADA@gone.example ") || f.lift("ada@gone.example") {
		t.Error("lifted not exactly once")
	}
	f.exec(`select notifier.retry('{"reason": "suppressed"}', 'anna')`)
	hands := f.hand(4)
	if len(hands) != 2 {
		t.Fatalf("%d in hand after the suppression was lifted, want 2", len(hands))
	}
	for _, h := range hands {
		f.write(h, sendlog.Accepted, "250 ok")
	}
	if n := f.number(`select count(*) from notifier.operations where arguments::text ilike '%gone%'`); n != 0 {
		t.Error("an operation keeps an address")
	}
	if n := f.number(`select count(*) from notifier.operations where operation = 'lift' and arguments -> 'keys' ? $1 and affected = 1`, confirm.Key); n != 1 {
		t.Error("the operation does not name the message")
	}
}

// A corrected address gets its mail, whatever the old one did.
func TestSuppressedThenCorrected(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	booking := f.booked("typo@gone.example")
	f.plan(mail(booking, sendlog.Confirm, 1))
	f.gone(f.one())
	f.seed.Readdress(f.bookings[booking], "right@customers.example")
	again := mail(booking, sendlog.Confirm, 2)
	f.plan(again)
	f.hostless()
	if h := f.one(); h.Key != again.Key || h.To() != "right@customers.example" {
		t.Errorf("in hand: %s to %s", h.Key, h.To())
	}
}

// A host's address is suppressed as well; nobody is told of that, and the customer's mails go.
func TestSuppressedHost(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	booking := f.book()
	host := mail(booking, sendlog.Confirm, 1)
	host.Key, host.Role = host.Key+"-host", sendlog.Host
	f.plan(host)
	f.gone(f.one())
	f.move(booking)
	customer, moved := mail(booking, sendlog.Move, 2), mail(booking, sendlog.Move, 2)
	moved.Key, moved.Role = moved.Key+"-host", sendlog.Host
	f.plan(customer, moved)
	if h := f.one(); h.Key != customer.Key {
		t.Errorf("%s is in hand", h.Key)
	}
	if got := f.state(moved.Key); !strings.HasPrefix(got, "refused: suppressed: ") {
		t.Errorf("%s is %q", moved.Key, got)
	}
	if n := f.number(`select count(*) from notifier.send_log where kind = 'notice'`); n != 0 {
		t.Errorf("%d notices", n)
	}
}

// Several results of one address, in one transaction and in two: the first reason stays.
func TestSuppressedTwice(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	f.hostless()
	f.plan(mail(f.booked("a@gone.example"), sendlog.Confirm, 1), mail(f.booked("A@gone.example"), sendlog.Confirm, 1))
	var results []sendlog.Result
	for _, h := range f.hand(2) {
		results = append(results, sendlog.Result{Key: h.Key, Token: h.Token, Outcome: sendlog.Rejected, Answer: "550 5.1.1 " + h.Key, Gone: h.To()})
	}
	for range 2 {
		if _, err := f.Write(f.ctx(), results); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.number(`select count(*) from notifier.suppressions where reason like '%' || key`); n != 1 {
		t.Errorf("%d suppressions", n)
	}
	// Written again after somebody has lifted it, as after a commit whose answer was lost.
	f.lift("a@gone.example")
	if _, err := f.Write(f.ctx(), results); err != nil {
		t.Fatal(err)
	}
	if n := f.number(`select count(*) from notifier.suppressions`); n != 0 {
		t.Error("an old result suppresses again")
	}
}

// A 250 that another hand got in the meantime does not make the mailbox exist: the row is
// sent, the address suppressed.
func TestSuppressedAndAcceptedLate(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	m := mail(f.book(), sendlog.Confirm, 1)
	f.plan(m)
	old := f.one()
	f.expire()
	f.sweep()
	now := f.one()
	f.write(old, sendlog.Accepted, "250 late")
	f.gone(now)
	f.want(m.Key, "sent")
	if n := f.number(`select count(*) from notifier.suppressions`); n != 1 {
		t.Errorf("%d suppressions", n)
	}
	if n := f.number(`select count(*) from notifier.send_log where kind = 'notice'`); n != 0 {
		t.Errorf("%d notices of a mail that was accepted", n)
	}
}
