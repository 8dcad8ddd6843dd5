package bounce_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/services/notifier/internal/bounce"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/seed"
)

// fixture is a database with a resource, and a send log on it.
type fixture struct {
	*seed.Seed
	t    *testing.T
	db   *dbtest.DB
	pool *pgxpool.Pool
	log  *sendlog.Log
}

func open(t *testing.T) fixture {
	t.Helper()
	db := dbtest.New(t)
	pool := db.Pool("slotwise_notifier")
	f := fixture{seed.New(t, db.Admin), t, db, pool, sendlog.New(pool, sendlog.DefaultTimes())}
	f.Resource(seed.Resource{ID: "room-7", Host: "Host@rooms.example"})
	return f
}

// booked books, for Zoe unless it is somebody else.
func (f fixture) booked(address string) seed.Booking {
	f.t.Helper()
	return f.Book(seed.Booking{Resource: "room-7", Address: address})
}

// mail is the confirmation of b as it stands.
func mail(b seed.Booking, role sendlog.Role) sendlog.Message {
	return sendlog.Message{
		Key:     id.Mail{Kind: "confirm", Booking: b.ID, Version: b.Version, Host: role == sendlog.Host}.String(),
		Channel: sendlog.Email, Booking: b.ID, Kind: sendlog.Confirm, Version: b.Version, StartVersion: b.StartVersion, Role: role,
		DueAt: time.Now().Add(-time.Second), Facts: sendlog.Facts{Status: "confirmed", Resource: "room-7", Zone: "Europe/Berlin", Seats: 1},
	}
}

// handed plans a mail and takes it in hand.
func (f fixture) handed(m sendlog.Message) sendlog.Hand {
	f.t.Helper()
	if _, err := f.log.Plan(f.t.Context(), []sendlog.Message{m}); err != nil {
		f.t.Fatal(err)
	}
	hands, _, err := f.log.Hand(f.t.Context(), 4, 4)
	if err != nil || len(hands) != 1 {
		f.t.Fatalf("%d in hand: %v", len(hands), err)
	}
	return hands[0]
}

func (f fixture) write(h sendlog.Hand, outcome sendlog.Outcome, answer string) {
	f.t.Helper()
	if _, err := f.log.Write(f.t.Context(), []sendlog.Result{{Key: h.Key, Token: h.Token, Outcome: outcome, Answer: answer}}); err != nil {
		f.t.Fatal(err)
	}
}

// sent sends a mail and returns its key.
func (f fixture) sent(m sendlog.Message) string {
	f.t.Helper()
	f.write(f.handed(m), sendlog.Accepted, "250 ok")
	return m.Key
}

func (f fixture) record(r bounce.Report, want bounce.Outcome) {
	f.t.Helper()
	key, got, err := bounce.Record(f.t.Context(), f.pool, r)
	if err != nil || got != want || (key != "") != (want != bounce.Unmatched && want != bounce.Ignored) {
		f.t.Errorf("%s: %s %s, %v, want %s", r.Words, got, key, err, want)
	}
}

func (f fixture) exec(sql string) {
	f.t.Helper()
	if _, err := f.db.Admin.Exec(f.t.Context(), sql); err != nil {
		f.t.Fatal(err)
	}
}

// text runs a query of one text.
func (f fixture) text(sql string, args ...any) (text string) {
	f.t.Helper()
	if err := f.db.Admin.QueryRow(f.t.Context(), sql, args...).Scan(&text); err != nil {
		f.t.Fatal(err)
	}
	return text
}

// state is where a row stands, as "state", "state: reason", and whether it has bounced.
func (f fixture) state(key string) string {
	f.t.Helper()
	return f.text(`select state || coalesce(': ' || reason, '') || case when bounced_at is null then '' else ' (bounced)' end from notifier.send_log where key = $1`, key)
}

func (f fixture) want(key, state string) {
	f.t.Helper()
	if got := f.state(key); got != state {
		f.t.Errorf("%s is %q, want %q", key, got, state)
	}
}

// suppressed are the addresses that are.
func (f fixture) suppressed() string {
	f.t.Helper()
	return f.text(`select coalesce(string_agg(address, ' ' order by address), '') from notifier.suppressions`)
}

// notices are the keys of what hosts are told about.
func (f fixture) notices() string {
	f.t.Helper()
	return f.text(`select coalesce(string_agg(payload ->> 'about', ' '), '') from notifier.send_log where kind = 'notice'`)
}

// hard says that the mail of key did not arrive.
func hard(key, address, status string) bounce.Report {
	return bounce.Report{Keys: []string{key}, Type: bounce.Hard, Address: address, Status: status, Words: "550 " + status + " no"}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	f := open(t)
	key := f.sent(mail(f.booked("Zoe@customers.example"), sendlog.Customer))
	soft := bounce.Report{Keys: []string{key}, Type: bounce.Soft, Status: "4.4.1", Words: "timed out"}
	f.record(soft, bounce.Noted)
	f.record(soft, bounce.Unchanged)
	f.want(key, "sent: delayed: timed out")
	if f.notices() != "" || f.suppressed() != "" {
		t.Error("somebody is told of a delay, or an address suppressed")
	}
	f.record(bounce.Report{Keys: []string{key}, Type: bounce.None, Words: "250 ok"}, bounce.Ignored)

	f.record(hard(key, "zoe@customers.example", "5.1.1"), bounce.Bounced)
	const state = "sent: bounced: 550 5.1.1 no (bounced)"
	f.want(key, state)
	if got := f.suppressed(); got != "zoe@customers.example" {
		t.Errorf("suppressed: %q", got)
	}
	if got := f.text(`select reason || ' ' || key from notifier.suppressions`); got != "550 5.1.1 no "+key {
		t.Errorf("suppressed: %q", got)
	}
	if got := f.notices(); got != key {
		t.Errorf("notices about %q", got)
	}
	if got := f.text(`select payload ->> 'why' from notifier.send_log where kind = 'notice'`); got != "bounced: 550 5.1.1 no" {
		t.Errorf("the notice says why: %q", got)
	}

	// The same once more, and another, after somebody has lifted the suppression.
	f.exec(`select notifier.lift('zoe@customers.example', 'anna')`)
	at := f.text(`select bounced_at::text from notifier.send_log where key = $1`, key)
	f.record(hard(key, "zoe@customers.example", "5.1.1"), bounce.Unchanged)
	f.record(hard(key, "zoe@customers.example", "5.2.2"), bounce.Unchanged)
	f.record(soft, bounce.Unchanged)
	f.want(key, state)
	if f.text(`select bounced_at::text from notifier.send_log where key = $1`, key) != at || f.suppressed() != "" || f.notices() != key {
		t.Error("a repeated report changes something")
	}
}

// Which address a report suppresses: the one that it names and that the mail goes to now.
func TestRecordSuppresses(t *testing.T) {
	t.Parallel()
	const zoe = "zoe@customers.example"
	tests := map[string]struct {
		role   sendlog.Role
		report func(key string) bounce.Report
		then   func(f fixture, b seed.Booking) // between the mail and its report
		want   string
	}{
		"its own address":               {sendlog.Customer, func(k string) bounce.Report { return hard(k, "ZOE@customers.example", "5.1.1") }, nil, zoe},
		"null MX":                       {sendlog.Customer, func(k string) bounce.Report { return hard(k, zoe, "5.1.10") }, nil, zoe},
		"full":                          {sendlog.Customer, func(k string) bounce.Report { return hard(k, zoe, "5.2.2") }, nil, ""},
		"no such domain":                {sendlog.Customer, func(k string) bounce.Report { return hard(k, zoe, "5.1.2") }, nil, ""},
		"a forwarder's":                 {sendlog.Customer, func(k string) bounce.Report { return hard(k, "ben@team.example", "5.1.1") }, nil, ""},
		"corrected since":               {sendlog.Customer, func(k string) bounce.Report { return hard(k, zoe, "5.1.1") }, func(f fixture, b seed.Booking) { f.Readdress(b, "right@customers.example") }, ""},
		"moved since":                   {sendlog.Customer, func(k string) bounce.Report { return hard(k, zoe, "5.1.1") }, func(f fixture, b seed.Booking) { f.Move(b, b.Start.Add(time.Hour)) }, zoe},
		"erased since":                  {sendlog.Customer, func(k string) bounce.Report { return hard(k, zoe, "5.1.1") }, func(f fixture, b seed.Booking) { f.Erase(b) }, ""},
		"not named":                     {sendlog.Customer, func(k string) bounce.Report { return hard(k, "", "5.1.1") }, nil, zoe},
		"not named, a note since":       {sendlog.Customer, func(k string) bounce.Report { return hard(k, "", "5.1.1") }, func(f fixture, b seed.Booking) { f.Annotate(b, "x") }, zoe},
		"not named, corrected since":    {sendlog.Customer, func(k string) bounce.Report { return hard(k, "", "5.1.1") }, func(f fixture, b seed.Booking) { f.Readdress(b, "right@customers.example") }, ""},
		"not named, erased since":       {sendlog.Customer, func(k string) bounce.Report { return hard(k, "", "5.1.1") }, func(f fixture, b seed.Booking) { f.Erase(b) }, ""},
		"the host's":                    {sendlog.Host, func(k string) bounce.Report { return hard(k, "host@ROOMS.example", "5.1.1") }, nil, "host@rooms.example"},
		"the host's, not named":         {sendlog.Host, func(k string) bounce.Report { return hard(k, "", "5.1.1") }, nil, ""},
		"the customer's, in the host's": {sendlog.Host, func(k string) bounce.Report { return hard(k, zoe, "5.1.1") }, nil, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			b := f.booked("Zoe@customers.example")
			key := f.sent(mail(b, tt.role))
			if tt.then != nil {
				tt.then(f, b)
			}
			f.record(tt.report(key), bounce.Bounced)
			if got := f.suppressed(); got != tt.want {
				t.Errorf("suppressed: %q, want %q", got, tt.want)
			}
			told := ""
			if tt.role == sendlog.Customer && !strings.HasSuffix(name, "erased since") {
				told = key
			}
			if got := f.notices(); got != told {
				t.Errorf("notices about %q, want %q", got, told)
			}
		})
	}
}

// A report may come before the 250, or after the row went another way.
func TestRecordInEachState(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		end     func(f fixture, h sendlog.Hand)
		state   string
		noticed bool
	}{
		"in hand":   {func(fixture, sendlog.Hand) {}, "handed: bounced: 550 5.1.1 no (bounced)", true},
		"no answer": {func(f fixture, h sendlog.Hand) { f.write(h, sendlog.NoAnswer, "EOF") }, "unknown: bounced: 550 5.1.1 no (bounced)", true},
		"refused":   {func(f fixture, h sendlog.Hand) { f.write(h, sendlog.Rejected, "550") }, "refused: 550 (bounced)", true},
		"skipped": {func(f fixture, h sendlog.Hand) {
			f.write(h, sendlog.NoAnswer, "EOF")
			f.exec(`update notifier.send_log set state = 'skipped', reason = 'superseded by v2'`)
		}, "skipped: superseded by v2 (bounced)", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			h := f.handed(mail(f.booked("zoe@customers.example"), sendlog.Customer))
			tt.end(f, h)
			f.record(bounce.Report{Keys: []string{h.Key}, Type: bounce.Soft, Words: "later"}, bounce.Unchanged)
			f.record(hard(h.Key, "zoe@customers.example", "5.1.1"), bounce.Bounced)
			f.want(h.Key, tt.state)
			if (f.notices() == h.Key) != tt.noticed {
				t.Errorf("notices about %q", f.notices())
			}
			if name != "in hand" {
				return
			}
			f.write(h, sendlog.Accepted, "250 ok") // the bounce was quicker
			f.want(h.Key, "sent (bounced)")
		})
	}
}

func TestRecordUnmatched(t *testing.T) {
	t.Parallel()
	f := open(t)
	b := f.booked("zoe@customers.example")
	planned := mail(b, sendlog.Customer)
	planned.DueAt = time.Now().Add(time.Hour)
	if _, err := f.log.Plan(t.Context(), []sendlog.Message{planned}); err != nil {
		t.Fatal(err)
	}
	f.record(bounce.Report{Type: bounce.Hard, Words: "x"}, bounce.Unmatched)
	f.record(hard("email-confirm-"+booking+"-v1", "", "5.1.1"), bounce.Unmatched)
	f.record(hard(planned.Key, "zoe@customers.example", "5.1.1"), bounce.Unmatched) // never in hand: a forgery
	f.want(planned.Key, "planned")

	// Of several keys the first that there is counts.
	sent := f.sent(mail(b, sendlog.Host))
	r := hard("email-confirm-"+booking+"-v1", "", "5.2.2")
	r.Keys = append(r.Keys, planned.Key, sent)
	f.record(r, bounce.Bounced)
	f.want(sent, "sent: bounced: 550 5.2.2 no (bounced)")
}

// Many deliver one report at once: it counts once.
func TestRecordAtOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	key := f.sent(mail(f.booked("zoe@customers.example"), sendlog.Customer))
	outcomes := make(chan bounce.Outcome, 8)
	for range cap(outcomes) {
		go func() {
			_, o, err := bounce.Record(t.Context(), f.pool, hard(key, "zoe@customers.example", "5.1.1"))
			if err != nil {
				t.Error(err)
			}
			outcomes <- o
		}()
	}
	var all []string
	for range cap(outcomes) {
		all = append(all, string(<-outcomes))
	}
	if n := strings.Count(strings.Join(all, " "), string(bounce.Bounced)); n != 1 {
		t.Errorf("%v: bounced %d times", all, n)
	}
	if f.notices() != key {
		t.Errorf("notices about %q", f.notices())
	}
}

// The report is found in each way in which statements may be sent.
func TestB29ExecModes(t *testing.T) {
	t.Parallel()
	f := open(t)
	for _, mode := range dbtest.ExecModes() {
		config, err := pgxpool.ParseConfig(f.db.URL("slotwise_notifier"))
		if err != nil {
			t.Fatal(err)
		}
		config.ConnConfig.DefaultQueryExecMode = mode
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		b := f.booked("")
		key := f.sent(mail(b, sendlog.Host))
		f.pool = pool
		f.record(bounce.Report{Type: bounce.Soft, Words: "x"}, bounce.Unmatched)
		f.record(hard(key, "host@rooms.example", "5.2.2"), bounce.Bounced)
		pool.Close()
	}
}
