package send

import (
	"errors"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

// phase is a step of the dialogue.
type phase string

const (
	phaseRender phase = "render"
	phaseMail   phase = "MAIL"
	phaseRcpt   phase = "RCPT"
	phaseData   phase = "DATA"
	phaseBody   phase = "body"
	phaseDot    phase = "dot"
)

// fate is what becomes of the connection after a hand.
type fate int

const (
	keep    fate = iota // ready for the next mail
	reset               // the same, once RSET has ended the transaction
	drop                // its server or the way there has trouble: wait before the next one
	dead                // it had ended before the mail: the next one may be had at once
	account             // the server does not want us: wait, and tell the operator
)

// answer is a complete reply of the server.
type answer struct {
	code int // three digits
	text string
}

// String is the reply on one line.
func (a answer) String() string {
	return strconv.Itoa(a.code) + " " + strings.ReplaceAll(a.text, "\n", " ")
}

// answered returns the reply that err is. Anything else (EOF, a deadline, a line that is no
// reply) means that the server did not answer.
func answered(err error) (answer, bool) {
	reply, ok := errors.AsType[*textproto.Error](err)
	if !ok || reply.Code < 200 || reply.Code > 599 {
		return answer{}, false
	}
	return answer{reply.Code, reply.Msg}, true
}

// judge says what an answer other than the expected one means for the mail and for the
// connection. The provider's own words come before the code.
func (s Settings) judge(p phase, a answer) (sendlog.Outcome, fate) {
	class := a.code / 100
	switch {
	case p == phaseDot && class == 2:
		return sendlog.Accepted, keep
	case p == phaseMail && a.code == 421:
		return sendlog.Lost, dead
	case p == phaseMail && a.code == 552: // the message is larger than the server takes
		return sendlog.Rejected, keep
	case p == phaseMail && class == 4:
		return sendlog.Lost, drop
	case p == phaseMail, a.code == 530, a.code == 535, a.code == 538: // RFC 4954: authentication
		return sendlog.Lost, account
	case class != 4 && class != 5 && p == phaseDot: // not an answer to what was asked
		return sendlog.NoAnswer, drop
	case class != 4 && class != 5:
		return sendlog.Lost, drop
	}
	after := reset
	switch {
	case a.code == 421: // the server closes the connection
		after = drop
	case p == phaseDot: // the transaction is over
		after = keep
	}
	final := class == 5
	switch text := a.String(); {
	case final && s.Temporary != nil && s.Temporary.MatchString(text):
		final = false
	case !final && s.Final != nil && s.Final.MatchString(text):
		final = true
	}
	if final {
		return sendlog.Rejected, after
	}
	return sendlog.Again, after
}
