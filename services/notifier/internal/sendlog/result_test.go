package sendlog_test

import (
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

func TestResults(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		outcome      sendlog.Outcome
		state        string
		hand         string // its outcome and whether it is marked
		due          int64  // seconds from now
		unknowns     int64
		attempts     int64
		urgency      int64
		quiet        bool
		nothingElses bool
	}{
		"250":       {outcome: sendlog.Accepted, state: "sent", hand: "sent false", due: -1},
		"4xx":       {outcome: sendlog.Again, state: "planned: x", hand: "planned false", due: 10, attempts: 1, urgency: 3},
		"lost":      {outcome: sendlog.Lost, state: "planned: x", hand: "planned false", due: 7},
		"5xx":       {outcome: sendlog.Rejected, state: "refused: x", hand: "refused false", due: -1},
		"no answer": {outcome: sendlog.NoAnswer, state: "unknown: x", hand: "unknown true", due: 900, unknowns: 1, quiet: true},
		"no mail":   {outcome: sendlog.Unsendable, state: "held: x", hand: "held false", due: -1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, sendlog.DefaultTimes())
			m := mail(f.book(), sendlog.Confirm, 1)
			f.plan(m)
			h := f.one()
			marks, err := f.Write(f.ctx(), []sendlog.Result{{Key: h.Key, Token: h.Token, Outcome: tt.outcome, Answer: "x", Wait: 7 * time.Second}})
			if err != nil || int64(marks) != tt.unknowns {
				t.Fatalf("%d marks: %v", marks, err)
			}
			f.want(m.Key, tt.state)
			var hand string
			err = f.db.Admin.QueryRow(f.ctx(), `select outcome || ' ' || unknown from notifier.hands where key = $1 and token = $2 and ended_at >= handed_at and answer = 'x'`, h.Key, h.Token).Scan(&hand)
			if err != nil || hand != tt.hand {
				t.Errorf("hand %q, want %q: %v", hand, tt.hand, err)
			}
			if got := f.seconds("due_at", m.Key); got < tt.due-1 || got > tt.due {
				t.Errorf("due in %d s, want %d", got, tt.due)
			}
			for column, want := range map[string]int64{"unknowns": tt.unknowns, "attempts": tt.attempts, "urgency": tt.urgency} {
				if got := f.number(`select `+column+` from notifier.send_log where key = $1`, m.Key); got != want {
					t.Errorf("%s = %d, want %d", column, got, want)
				}
			}
			if got := f.number(`select count(*) from notifier.send_log where quiet_until = handed_at + interval '15 minutes'`) == 1; got != tt.quiet {
				t.Errorf("quiet: %t", got)
			}
		})
	}
}

func TestResultsOf4xx(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	m := mail(f.book(), sendlog.Confirm, 1)
	f.plan(m)
	waits := []int64{10, 60, 300, 900, 3600, 3600}
	for i := 1; i <= 19; i++ {
		h := f.one()
		if h.Attempts != i-1 || h.N != i {
			t.Fatalf("try %d: %d attempts, hand %d", i, h.Attempts, h.N)
		}
		f.write(h, sendlog.Again, "451 later")
		want := waits[min(i, len(waits))-1]
		if got := f.seconds("due_at", m.Key); got < want-1 || got > want {
			t.Errorf("after %d: due in %d s, want %d", i, got, want)
		}
		f.want(m.Key, "planned: 451 later")
		f.dueNow()
	}
	f.write(f.one(), sendlog.Again, "451 later")
	f.want(m.Key, "held: too many tries: 451 later")
}

func TestResultsOf4xxForTwoDays(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	m := mail(f.book(), sendlog.Confirm, 1)
	f.plan(m)
	f.write(f.one(), sendlog.Again, "451 later")
	f.exec(`update notifier.send_log set first_4xx_at = now() - interval '48 hours'`)
	f.dueNow()
	f.write(f.one(), sendlog.Again, "451 later")
	f.want(m.Key, "held: too many tries: 451 later")
}

// A mail is held at its third unknown mark, and a released one at its next.
func TestResultsThirdUnknownIsHeld(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]func(f fixture, h sendlog.Hand){
		"no answer":   func(f fixture, h sendlog.Hand) { f.write(h, sendlog.NoAnswer, "EOF") },
		"lease ended": func(f fixture, _ sendlog.Hand) { f.expire(); f.sweep() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, sendlog.DefaultTimes())
			f.hostless()
			m := mail(f.book(), sendlog.Confirm, 1)
			f.plan(m)
			for range 2 {
				mark(f, f.one())
				if got := f.state(m.Key); !strings.HasPrefix(got, "unknown: ") {
					t.Fatalf("marked: %s", got)
				}
				f.dueNow()
			}
			const held = "held: too often no answer after the final dot"
			mark(f, f.one())
			f.want(m.Key, held)
			if n := f.number(`select unknowns from notifier.send_log`); n != 3 {
				t.Errorf("%d marks", n)
			}
			if got := f.seconds("quiet_until", m.Key); got < 895 {
				t.Errorf("quiet for %d s", got)
			}
			f.exec(`update notifier.send_log set state = 'planned', due_at = now()`) // released
			mark(f, f.one())
			f.want(m.Key, held)
			if n := f.number(`select count(*) from notifier.hands where unknown`); n != 4 {
				t.Errorf("%d hands are marked", n)
			}
		})
	}
}

// B21: what is written counts only while the row is still in that hand.
func TestB21OnlyMyHand(t *testing.T) {
	t.Parallel()
	for _, outcome := range []sendlog.Outcome{sendlog.Again, sendlog.Lost, sendlog.Rejected, sendlog.NoAnswer, sendlog.Unsendable} {
		t.Run(string(outcome), func(t *testing.T) {
			t.Parallel()
			f := open(t, sendlog.DefaultTimes())
			m := mail(f.book(), sendlog.Confirm, 1)
			f.plan(m)
			old := f.one()
			f.expire()
			f.sweep()
			f.write(old, outcome, "x")
			f.want(m.Key, "unknown: the lease ended")
			now := f.one()
			f.write(old, outcome, "x")
			f.want(m.Key, "handed: the lease ended")
			f.write(now, sendlog.Accepted, "250 ok")
			f.write(old, outcome, "x")
			f.want(m.Key, "sent")
			if n := f.number(`select unknowns from notifier.send_log`); n != 1 {
				t.Errorf("%d marks", n)
			}
		})
	}
}

// B21: results and sweeps of the same rows at once. Whoever comes second finds the row in another
// state: each hand ends once, and no acceptance is lost.
func TestB21SweepWhileResultsAreWritten(t *testing.T) {
	t.Parallel()
	for _, outcome := range []sendlog.Outcome{sendlog.Accepted, sendlog.Again} {
		t.Run(string(outcome), func(t *testing.T) {
			t.Parallel()
			const mails = 200
			f := open(t, sendlog.DefaultTimes())
			var all []sendlog.Message
			for range mails {
				all = append(all, mail(f.book(), sendlog.Confirm, 1))
			}
			f.plan(all...)
			hands := f.hand(mails)
			f.expire()
			var racing sync.WaitGroup
			racing.Go(func() {
				for i := 0; i < mails; i += 4 {
					var results []sendlog.Result
					for _, h := range hands[i : i+4] {
						results = append(results, sendlog.Result{Key: h.Key, Token: h.Token, Outcome: outcome, Answer: "x"})
					}
					if _, err := f.Write(f.ctx(), results); err != nil {
						t.Error(err)
					}
				}
			})
			racing.Go(func() {
				for range 20 {
					if _, err := f.Sweep(f.ctx()); err != nil {
						t.Error(err)
					}
				}
			})
			racing.Wait()
			marks := f.number(`select sum(unknowns) from notifier.send_log`)
			if n := f.number(`select count(*) from notifier.hands where unknown`); n != marks {
				t.Errorf("%d hands are marked, %d marks", n, marks)
			}
			if outcome == sendlog.Accepted {
				if n := f.number(`select count(*) from notifier.send_log where state = 'sent'`); n != mails {
					t.Errorf("%d of %d are sent", n, mails)
				}
				return
			}
			if n := f.number(`select coalesce(sum(attempts), 0) from notifier.send_log where state = 'planned'`); n+marks != mails {
				t.Errorf("%d tried again and %d marked, want %d", n, marks, mails)
			}
		})
	}
}

// A 250 whose hand has lost the row is written by key.
func TestResultsLate250(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		then  func(f fixture, booking string) // after the row was taken over
		state string
	}{
		"unknown":                {func(fixture, string) {}, "sent"},
		"planned":                {func(f fixture, _ string) { f.write(f.one(), sendlog.Again, "451") }, "sent"},
		"refused":                {func(f fixture, _ string) { f.write(f.one(), sendlog.Rejected, "550") }, "sent"},
		"held":                   {func(f fixture, _ string) { f.write(f.one(), sendlog.Unsendable, "x") }, "sent"},
		"sent":                   {func(f fixture, _ string) { f.write(f.one(), sendlog.Accepted, "250") }, "sent"},
		"skipped keeps its word": {func(f fixture, b string) { f.cancel(b); f.hand(1) }, "skipped: superseded by v2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, sendlog.DefaultTimes())
			booking := f.book()
			m := mail(booking, sendlog.Confirm, 1)
			f.plan(m)
			old := f.one()
			f.expire()
			f.sweep()
			tt.then(f, booking)
			f.write(old, sendlog.Accepted, "250 late")
			f.want(m.Key, tt.state)
			if n := f.number(`select count(*) from notifier.send_log where accepted_at is not null and unknowns = 1 and quiet_until > now()`); n != 1 {
				t.Error("the acceptance, the mark or the quiet time is missing")
			}
			if n := f.number(`select count(*) from notifier.hands where token = $1 and outcome = 'sent' and unknown and answer = '250 late'`, old.Token); n != 1 {
				t.Error("the hand does not tell of its late acceptance")
			}
		})
	}
}

// While another hand has the row too, it is sent when that hand ends, however it ends: until
// then the slot is not free.
func TestResultsLate250InAnothersHand(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(f fixture, h sendlog.Hand){
		"4xx":         func(f fixture, h sendlog.Hand) { f.write(h, sendlog.Again, "451") },
		"5xx":         func(f fixture, h sendlog.Hand) { f.write(h, sendlog.Rejected, "550") },
		"lost":        func(f fixture, h sendlog.Hand) { f.write(h, sendlog.Lost, "EOF") },
		"no mail":     func(f fixture, h sendlog.Hand) { f.write(h, sendlog.Unsendable, "x") },
		"250":         func(f fixture, h sendlog.Hand) { f.write(h, sendlog.Accepted, "250") },
		"no answer":   func(f fixture, h sendlog.Hand) { f.write(h, sendlog.NoAnswer, "EOF") },
		"lease ended": func(f fixture, _ sendlog.Hand) { f.expire(); f.sweep() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, sendlog.DefaultTimes())
			booking := f.book()
			m := mail(booking, sendlog.Confirm, 1)
			f.plan(m)
			old := f.one()
			f.expire()
			f.sweep()
			now := f.one()
			f.write(old, sendlog.Accepted, "250 late")
			f.want(m.Key, "handed: the lease ended")
			f.cancel(booking)
			f.plan(mail(booking, sendlog.Cancel, 2))
			f.dueNow()
			if hands := f.hand(4); len(hands) != 0 {
				t.Fatalf("the slot is free: %+v", hands)
			}
			end(f, now)
			f.want(m.Key, "sent")
			marks := int64(1)
			if name == "no answer" || name == "lease ended" {
				marks = 2
			}
			if n := f.number(`select unknowns from notifier.send_log where key = $1`, m.Key); n != marks {
				t.Errorf("%d marks, want %d", n, marks)
			}
		})
	}
}

// One batch holds a late 250 and the end of the present hand of the same row.
func TestResultsOfTwoHandsOfOneRow(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	m := mail(f.book(), sendlog.Confirm, 1)
	f.plan(m)
	old := f.one()
	f.expire()
	f.sweep()
	now := f.one()
	_, err := f.Write(f.ctx(), []sendlog.Result{
		{Key: m.Key, Token: old.Token, Outcome: sendlog.Accepted, Answer: "250 late"},
		{Key: m.Key, Token: now.Token, Outcome: sendlog.Again, Answer: "451"},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.want(m.Key, "sent")
}

func TestResultsTwice(t *testing.T) {
	t.Parallel()
	f := open(t, sendlog.DefaultTimes())
	a, b := mail(f.book(), sendlog.Confirm, 1), mail(f.book(), sendlog.Confirm, 1)
	f.plan(a, b)
	var results []sendlog.Result
	for _, h := range f.hand(4) {
		results = append(results, sendlog.Result{Key: h.Key, Token: h.Token, Outcome: map[string]sendlog.Outcome{a.Key: sendlog.Accepted, b.Key: sendlog.NoAnswer}[h.Key], Answer: "x"})
	}
	for range 2 {
		if _, err := f.Write(f.ctx(), results); err != nil {
			t.Fatal(err)
		}
		f.want(a.Key, "sent")
		f.want(b.Key, "unknown: x")
	}
	if n := f.number(`select sum(unknowns) from notifier.send_log`); n != 1 {
		t.Errorf("%d marks", n)
	}
}

func TestResultsAnyAnswer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"empty": "", "NUL": "a\x00b", "no UTF-8": "\xff\xfe", "long": strings.Repeat("ä", 2000), "cut in a rune": "a" + strings.Repeat("ä", 2000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, sendlog.DefaultTimes())
			m := mail(f.book(), sendlog.Confirm, 1)
			f.plan(m)
			f.write(f.one(), sendlog.Rejected, answer)
			if got := f.state(m.Key); !strings.HasPrefix(got, "refused: ") || !utf8.ValidString(got) || len(got) > 1024+len("refused: ") {
				t.Errorf("%q", got)
			}
		})
	}
}
