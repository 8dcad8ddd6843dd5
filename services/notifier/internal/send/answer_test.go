package send

import (
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

func TestB69Answers(t *testing.T) {
	t.Parallel()
	type want struct {
		outcome sendlog.Outcome
		fate    fate
	}
	again, refused, account := want{sendlog.Again, reset}, want{sendlog.Rejected, reset}, want{sendlog.Lost, account}
	tests := []struct {
		phase phase
		codes []int
		want  want
	}{
		{phaseRcpt, []int{450, 451, 452, 454, 455, 499}, again},
		{phaseRcpt, []int{421}, want{sendlog.Again, drop}},
		{phaseRcpt, []int{500, 501, 503, 550, 551, 552, 553, 554, 555, 599}, refused},
		{phaseRcpt, []int{530, 535, 538}, account},
		{phaseRcpt, []int{220, 354}, want{sendlog.Lost, drop}},
		{phaseData, []int{451}, again},
		{phaseData, []int{554}, refused},
		{phaseData, []int{250}, want{sendlog.Lost, drop}},
		{phaseDot, []int{200, 251, 252}, want{sendlog.Accepted, keep}},
		{phaseDot, []int{450, 451, 452, 454}, want{sendlog.Again, keep}},
		{phaseDot, []int{421}, want{sendlog.Again, drop}},
		{phaseDot, []int{550, 552, 553, 554}, want{sendlog.Rejected, keep}},
		{phaseDot, []int{354}, want{sendlog.NoAnswer, drop}},
		{phaseMail, []int{421}, want{sendlog.Lost, dead}},
		{phaseMail, []int{450, 451, 452}, want{sendlog.Lost, drop}},
		{phaseMail, []int{500, 503, 530, 535, 550, 553, 554}, account},
		{phaseMail, []int{552}, want{sendlog.Rejected, keep}},
	}
	for _, tt := range tests {
		for _, code := range tt.codes {
			outcome, fate := Settings{}.judge(tt.phase, answer{code, "x"})
			if got := (want{outcome, fate}); got != tt.want {
				t.Errorf("%d at %s: %v, want %v", code, tt.phase, got, tt.want)
			}
		}
	}
}

func TestAnswersInTheProvidersWords(t *testing.T) {
	t.Parallel()
	s := Settings{Temporary: regexp.MustCompile(`(?i)try again later`), Final: regexp.MustCompile(`5\.1\.1`)}
	tests := map[string]struct {
		code int
		text string
		want sendlog.Outcome
	}{
		"550 that is temporary": {550, "5.7.1 rate limited,\nTry again later", sendlog.Again},
		"450 that is final":     {450, "5.1.1 no mailbox", sendlog.Rejected},
		"plain 550":             {550, "5.1.1 no mailbox", sendlog.Rejected},
		"plain 450":             {450, "4.2.1 try again later", sendlog.Again},
	}
	for name, tt := range tests {
		for _, p := range []phase{phaseRcpt, phaseData, phaseDot} {
			if got, _ := s.judge(p, answer{tt.code, tt.text}); got != tt.want {
				t.Errorf("%s at %s: %s", name, p, got)
			}
		}
		if got, _ := s.judge(phaseMail, answer{tt.code, tt.text}); got != sendlog.Lost {
			t.Errorf("%s at MAIL FROM: %s, though it is not about the mail", name, got)
		}
	}
}

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	for _, err := range []error{io.EOF, os.ErrDeadlineExceeded, textproto.ProtocolError("short response"), &textproto.Error{Code: 0}, &textproto.Error{Code: 699}} {
		if a, ok := answered(fmt.Errorf("x: %w", err)); ok {
			t.Errorf("%v is the answer %v", err, a)
		}
	}
	if a, ok := answered(errors.Join(io.EOF, &textproto.Error{Code: 550, Msg: "a\nb"})); !ok || a.String() != "550 a b" {
		t.Errorf("answer %v, %t", a, ok)
	}
}

func TestNameless(t *testing.T) {
	t.Parallel()
	const to = "ada+x@customers.example"
	for words, want := range map[string]string{
		"550 <Ada+X@Customers.example>, ada+x@customers.example?": "550 <(address)>, (address)?",
		"550 no@customers.example":                                "550 no@customers.example",
		"550 no":                                                  "550 no",
	} {
		if got := nameless(words, to); got != want {
			t.Errorf("%q becomes %q, want %q", words, got, want)
		}
	}
	if got := nameless("550 a@b", ""); got != "550 a@b" {
		t.Errorf("%q", got)
	}
}

func TestB60Carriable(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"a@b.example": true, `"a b"@b.example`: true, "ä@b.example": true,
		"": false, "a@b.example>\r\nDATA\r\nx": false, "a@b.example\n": false, "a@b\x00.example": false, "a>b@b.example": false, "<a@b.example": false, "a\x7f@b.example": false,
	} {
		if got := carriable(addr); got != want {
			t.Errorf("%q: %t", addr, got)
		}
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := newPace(10, now)
	if got := p.allow(4, now); got != 4 {
		t.Errorf("a full bucket allows %d of 4", got)
	}
	if _, binds := p.binds(); binds {
		t.Error("a full bucket binds")
	}
	p.spend(12) // urgencies may overdraw it
	if got := p.allow(4, now.Add(100*time.Millisecond)); got != 0 {
		t.Errorf("in debt it allows %d", got)
	}
	if wait, binds := p.binds(); !binds || wait < 190*time.Millisecond || wait > 210*time.Millisecond {
		t.Errorf("it binds %t for %s", binds, wait)
	}
	if got := p.allow(4, now.Add(400*time.Millisecond)); got != 2 {
		t.Errorf("later it allows %d, want 2", got)
	}
	if got := p.allow(100, now.Add(time.Hour)); got != 10 {
		t.Errorf("after an hour it allows %d, want a second's worth", got)
	}
	if got := newPace(0, now).allow(100, now); got != 100 {
		t.Errorf("without a limit it allows %d", got)
	}
}
