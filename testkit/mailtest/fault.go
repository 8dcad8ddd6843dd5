package mailtest

import (
	"slices"
	"strings"
	"time"
)

// Phase is a step of the dialogue, named by what the client does.
type Phase string

// The phases, in their usual order. Dot is the end of a message's data.
const (
	Greeting Phase = "greeting"
	EHLO     Phase = "EHLO"
	STARTTLS Phase = "STARTTLS"
	AUTH     Phase = "AUTH"
	MAIL     Phase = "MAIL"
	RCPT     Phase = "RCPT"
	DATA     Phase = "DATA"
	Dot      Phase = "dot"
	RSET     Phase = "RSET"
	NOOP     Phase = "NOOP"
	QUIT     Phase = "QUIT"
)

// End is how a command ends for the client.
type End int

// The ends; the first is the default.
const (
	Answered End = iota // an answer, and the dialogue goes on
	Hangup              // an answer, then the connection is closed
	Closed              // the connection is closed without an answer
	Silent              // no answer; the connection stays open until the client leaves
)

// Fault is one misbehaviour. The zero value of each field changes nothing.
type Fault struct {
	Phase Phase // required
	// Which commands of that phase: those for which all of these hold.
	To    string             // a recipient of the message so far, or its domain as "@example.org"
	Conn  int                // the connection's number, from 1
	Skip  int                // let this many pass first
	Times int                // then misbehave this often; 0: always
	Match func(Command) bool // anything else

	// What happens, in this order.
	Delay   time.Duration   // before the server acts
	Until   <-chan struct{} // waits, after Delay, until this is closed
	Reply   string          // such as "451 4.7.1 try later": the answer; 4xx and 5xx: nothing is done
	Untaken bool            // nothing is done, whatever the answer
	Late    time.Duration   // after the server has acted, before its answer or end
	End     End
}

// Command is what a Fault is matched with.
type Command struct {
	Phase   Phase
	Conn    int // the connection's number, from 1
	Message int // the message's number on its connection, from 1 at its MAIL
	Arg     string
	From    string
	To      []string // the recipients accepted so far; at RCPT with this one
	Raw     []byte   // at Dot: the message; nil in NoOp mode
}

// rule is a Fault at work.
type rule struct {
	Fault
	seen int
}

// hit reports whether the fault is for this command, and counts it.
func (r *rule) hit(c Command) bool {
	if r.Phase != c.Phase || r.Conn != 0 && r.Conn != c.Conn || r.Match != nil && !r.Match(c) {
		return false
	}
	if r.To != "" && !slices.ContainsFunc(c.To, func(to string) bool {
		return strings.EqualFold(to, r.To) || r.To[0] == '@' && strings.HasSuffix(strings.ToLower(to), strings.ToLower(r.To))
	}) {
		return false
	}
	r.seen++
	return r.seen > r.Skip && (r.Times == 0 || r.seen <= r.Skip+r.Times)
}

// refuses reports whether the server does nothing but answer.
func (f Fault) refuses() bool {
	return f.Untaken || strings.HasPrefix(f.Reply, "4") || strings.HasPrefix(f.Reply, "5")
}
