package send

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/slotwise/slotwise/pkg/failpoint"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/wneessen/go-mail/smtp"
)

// ending is how a hand ended.
type ending struct {
	outcome sendlog.Outcome
	words   string // the server's, or what happened
	phase   phase
	code    int // of the server's answer; 0: none
	fate    fate
	wait    time.Duration // after Lost: the row is due after this
}

// errAddress says that an address would break the dialogue. The booking service refuses such
// addresses, and the renderer does.
var errAddress = errors.New("an address can't be carried by SMTP")

// dialogue sends one mail over c, and says how that ended. It writes at most one final dot.
func (s *Sender) dialogue(c *connection, h sendlog.Hand) ending {
	mail, err := s.render(h)
	if err != nil {
		return ending{outcome: sendlog.Unsendable, words: "can't be rendered: " + err.Error(), phase: phaseRender}
	}
	from, to := s.returnPath(h), h.To()
	if !carriable(from) || !carriable(to) {
		return ending{outcome: sendlog.Unsendable, words: errAddress.Error(), phase: phaseRender}
	}
	failpoint.Hit("sender.handed")
	times := s.log.Times()
	c.deadline(h.Lease.Begun().Add(times.Dot))
	if h.Lease.Over(time.Now()) {
		return ending{outcome: sendlog.Lost, words: "the lease ended before MAIL FROM", phase: phaseMail, fate: dead}
	}
	c.client.SkipSMTPUTF8(ascii(from) && ascii(to))
	if err := c.client.Mail("<" + from + ">"); err != nil {
		return s.failed(h, phaseMail, err)
	}
	if err := c.client.Rcpt("<" + to + ">"); err != nil {
		return s.failed(h, phaseRcpt, err)
	}
	data, err := c.client.Data()
	if err != nil {
		return s.failed(h, phaseData, err)
	}
	closer, ok := data.(*smtp.DataCloser)
	if ok {
		closer.WriteCloser = body{closer.WriteCloser}
	}
	// Only Close writes the dot, so what fails before it has left no mail behind.
	if _, err := data.Write(mail); err != nil {
		return s.failed(h, phaseBody, err)
	}
	failpoint.Hit("sender.body")
	now := time.Now()
	if h.Lease.Over(now) || h.Lease.Since(now) > times.Dot {
		return ending{outcome: sendlog.Lost, words: "the lease ended before the final dot", phase: phaseBody, fate: drop, wait: s.waitAfter(h)}
	}
	c.deadline(now.Add(times.Answer))
	failpoint.Hit("sender.dot")
	if err := data.Close(); err != nil {
		return s.failed(h, phaseDot, err)
	}
	failpoint.Hit("sender.answered")
	words := "250"
	if ok {
		words = nameless(answer{250, closer.ServerResponse()}.String(), to)
	}
	return ending{outcome: sendlog.Accepted, words: words, phase: phaseDot, code: 250, fate: keep}
}

// body is the data of a mail. Between its end and the answer lies the one window in which a
// second copy becomes possible.
type body struct{ io.WriteCloser }

// Close writes the final dot.
func (b body) Close() error {
	err := b.WriteCloser.Close()
	failpoint.Hit("sender.dotted")
	return err //nolint:wrapcheck // as go-mail's own
}

// failed judges err of a phase: the server's answer, or the lack of one.
func (s *Sender) failed(h sendlog.Hand, p phase, err error) ending {
	a, ok := answered(err)
	if ok {
		outcome, fate := s.settings.judge(p, a)
		e := ending{outcome: outcome, words: nameless(a.String(), h.To()), phase: p, code: a.code, fate: fate}
		if outcome == sendlog.Lost && p != phaseMail {
			e.wait = s.waitAfter(h)
		}
		return e
	}
	e := ending{outcome: sendlog.Lost, words: fmt.Sprintf("no answer in the phase %s: %v", p, err), phase: p, fate: drop}
	switch p {
	case phaseMail:
		e.fate = dead
	case phaseDot:
		e.outcome = sendlog.NoAnswer
	default:
		e.wait = s.waitAfter(h)
	}
	return e
}

// waitAfter is how long a mail waits whose connection was lost in the middle: the more often it
// was in hand the longer, because the mail itself may be what the server can't stand. It is
// never held for that.
func (s *Sender) waitAfter(h sendlog.Hand) time.Duration {
	steps := s.log.Times().Steps
	return steps[min(max(h.N, 1), len(steps))-1]
}

// carriable reports whether addr fits between < and > on a line of its own.
func carriable(addr string) bool {
	return addr != "" && len(addr) <= 254 && !strings.ContainsFunc(addr, func(r rune) bool {
		return r < ' ' || r == 0x7f || r == '<' || r == '>'
	})
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > '~' })
}

// nameless takes the recipient's address out of a server's words: they are kept, and shown.
func nameless(words, to string) string {
	if to == "" || !strings.Contains(words, "@") {
		return words
	}
	return regexp.MustCompile(`(?i)`+regexp.QuoteMeta(to)).ReplaceAllLiteralString(words, "(address)")
}
