package bus

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// MaxBatch is the most messages that nats-server takes in one atomic batch (ADR-50).
const MaxBatch = 1000

// answerTimeout is how long a [Publisher] waits for an answer after its last message.
const answerTimeout = 5 * time.Second

// Headers of an atomic batch (ADR-50).
const (
	batchID       = "Nats-Batch-Id"
	batchSequence = "Nats-Batch-Sequence"
	batchCommit   = "Nats-Batch-Commit"
)

// Publisher publishes many messages to JetStream at once and tells what became of each. It
// retries nothing: what to do with a message whose answer did not come is its caller's
// matter. It is for one goroutine at a time.
type Publisher struct {
	// Before, unless nil, is asked right before each message leaves; its error keeps that
	// message and all after it from being sent.
	Before func() error
	// Timeout is how long to wait for answers after the last message was sent; 5 s by default.
	Timeout time.Duration

	nc      *nats.Conn
	sub     *nats.Subscription
	inbox   string // ends with a dot
	answers chan *nats.Msg
	status  chan nats.Status
	calls   uint64
}

// Ack is JetStream's answer to a message that is stored.
type Ack struct {
	Stream    string `json:"stream"`
	Sequence  uint64 `json:"seq"`       // where it is stored; of a batch, its last message
	Duplicate bool   `json:"duplicate"` // the message's id was known: Sequence is the first one's
	Batch     string `json:"batch"`
	Count     int    `json:"count"` // messages of the batch
}

// Answer is what became of one message. Err is nil when it is stored; a
// [*jetstream.APIError] when the server refused it; [jetstream.ErrNoStreamResponse] when no
// stream takes its subject; [ErrNotSent], wrapped, when it was not sent; and otherwise it is
// not known whether it is stored.
type Answer struct {
	Ack Ack
	Err error
}

// ErrNotSent says that a message did not leave this process.
var ErrNotSent = errors.New("not sent")

// NewPublisher returns a publisher on nc. Close it, or nc, when done.
func NewPublisher(nc *nats.Conn) (*Publisher, error) {
	p := &Publisher{
		Timeout: answerTimeout,
		nc:      nc,
		inbox:   nc.NewInbox() + ".",
		answers: make(chan *nats.Msg, 2*MaxBatch),
		status:  nc.StatusChanged(nats.CLOSED, nats.RECONNECTING),
	}
	sub, err := nc.ChanSubscribe(p.inbox+"*.*", p.answers)
	if err != nil {
		return nil, fmt.Errorf("subscribe to answers: %w", err)
	}
	p.sub = sub
	return p, nil
}

// Close gives back what the publisher holds on its connection, which stays open.
func (p *Publisher) Close() {
	p.sub.Unsubscribe() //nolint:errcheck // the connection may have gone
	p.nc.RemoveStatusListener(p.status)
}

// Publish sends the messages one after the other, without waiting in between, and returns
// the answer to each, in their order.
func (p *Publisher) Publish(msgs []*nats.Msg) []Answer {
	p.begin()
	all := make([]Answer, len(msgs))
	var failed error // why nothing more is sent
	open := 0        // sent and not answered
	for i, m := range msgs {
		if failed == nil && open == MaxBatch {
			failed = p.await(all, 1)
			open--
		}
		if failed != nil {
			all[i].Err = notSent(failed)
			continue
		}
		for _, name := range []string{batchID, batchSequence, batchCommit} {
			m.Header.Del(name)
		}
		switch err := p.send(m, i); {
		case err == nil:
			all[i].Err = errNoAnswer
			open++
		case OfMessage(err):
			all[i].Err = err
		default:
			all[i].Err, failed = notSent(err), err
		}
	}
	p.await(all, open) //nolint:errcheck // it is in the answers
	return all
}

// PublishBatch sends the messages, at most [MaxBatch], as one atomic batch: all of them are
// stored, side by side, or none is. The error is as in [Answer]. A refusal often hides its
// cause, and one message id that is stored already refuses the whole batch: call
// [Publisher.Publish] to learn what is wrong with which.
func (p *Publisher) PublishBatch(msgs []*nats.Msg) (Ack, error) {
	if len(msgs) == 0 || len(msgs) > MaxBatch {
		return Ack{}, fmt.Errorf("%w: a batch of %d messages", ErrNotSent, len(msgs))
	}
	p.begin()
	last := len(msgs) - 1
	name := p.batchName()
	for i, m := range msgs {
		if m.Header == nil {
			m.Header = nats.Header{}
		}
		m.Header.Set(batchID, name)
		m.Header.Set(batchSequence, strconv.Itoa(i+1))
		m.Header.Del(batchCommit)
		if i == last {
			m.Header.Set(batchCommit, "1")
		}
		send := p.sendSilently
		if i == 0 || i == last { // the first's answer tells early why there can be no batch
			send = func(m *nats.Msg) error { return p.send(m, i) }
		}
		if err := send(m); err != nil {
			return Ack{}, fmt.Errorf("message %d of a batch: %w", i+1, err)
		}
	}
	return p.awaitBatch(name, last)
}

// begin makes late answers to earlier calls strangers and forgets what they left.
func (p *Publisher) begin() {
	p.calls++
	for {
		select {
		case <-p.answers:
		case _, open := <-p.status:
			if !open {
				return
			}
		default:
			return
		}
	}
}

func (p *Publisher) call() string { return strconv.FormatUint(p.calls, 36) }

// batchName is new with every call, and at most 64 characters long as ADR-50 wants it.
func (p *Publisher) batchName() string {
	_, unique, _ := strings.Cut(strings.TrimSuffix(p.inbox, "."), ".")
	return unique + "-" + p.call()
}

// send sends m, whose answer will carry the number n.
func (p *Publisher) send(m *nats.Msg, n int) error {
	m.Reply = p.inbox + p.call() + "." + strconv.Itoa(n)
	return p.out(m)
}

func (p *Publisher) sendSilently(m *nats.Msg) error {
	m.Reply = ""
	return p.out(m)
}

func (p *Publisher) out(m *nats.Msg) error {
	if p.Before != nil {
		if err := p.Before(); err != nil {
			return err
		}
	}
	return p.nc.PublishMsg(m)
}

// errNoAnswer is what becomes of a message unless an answer comes.
var errNoAnswer = fmt.Errorf("no answer: %w", nats.ErrTimeout)

// await reads n answers into all. When it can't, all that are open get the error.
func (p *Publisher) await(all []Answer, n int) error {
	timer := time.NewTimer(p.Timeout)
	defer timer.Stop()
	for n > 0 {
		number, answer, err := p.next(timer.C)
		if err != nil {
			for i := range all {
				if errors.Is(all[i].Err, errNoAnswer) {
					all[i].Err = err
				}
			}
			return err
		}
		if number < len(all) && errors.Is(all[number].Err, errNoAnswer) {
			all[number] = answer
			n--
		}
	}
	return nil
}

// awaitBatch reads the answer to the commit, unless the first message is refused before.
func (p *Publisher) awaitBatch(name string, last int) (Ack, error) {
	timer := time.NewTimer(p.Timeout)
	defer timer.Stop()
	for {
		number, answer, err := p.next(timer.C)
		switch {
		case err != nil:
			return Ack{}, err
		case answer.Err != nil && !errors.Is(answer.Err, errEmpty):
			return Ack{}, answer.Err
		case number != last:
			continue
		case answer.Err != nil || answer.Ack.Batch != name || answer.Ack.Count != last+1:
			return Ack{}, fmt.Errorf("answer to a batch of %d: %w", last+1, jetstream.ErrInvalidJSAck)
		}
		return answer.Ack, nil
	}
}

// next returns one answer of this call and the number of its message, or an error when none
// will come.
func (p *Publisher) next(over <-chan time.Time) (number int, answer Answer, err error) {
	prefix := p.inbox + p.call() + "."
	for {
		select {
		case m := <-p.answers:
			rest, ours := strings.CutPrefix(m.Subject, prefix)
			number, err := strconv.Atoi(rest)
			if ours && err == nil {
				return number, read(m), nil
			}
		case <-p.status:
			return 0, Answer{}, fmt.Errorf("no answer: %w", nats.ErrDisconnected)
		case <-over:
			return 0, Answer{}, errNoAnswer
		}
	}
}

// errEmpty says that an answer is empty: to all but the last message of a batch it says that
// the message has arrived.
var errEmpty = errors.New("empty answer")

func read(m *nats.Msg) Answer {
	if len(m.Data) == 0 {
		if m.Header.Get("Status") == "503" {
			return Answer{Err: jetstream.ErrNoStreamResponse}
		}
		return Answer{Err: errEmpty}
	}
	var body struct {
		Ack
		Error *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &body); {
	case err != nil:
		return Answer{Err: jetstream.ErrInvalidJSAck}
	case body.Error != nil:
		return Answer{Err: body.Error}
	case body.Stream == "" || body.Sequence == 0: // 0: the id is remembered, the message is not stored
		return Answer{Err: jetstream.ErrInvalidJSAck}
	}
	return Answer{Ack: body.Ack}
}

func notSent(cause error) error { return fmt.Errorf("%w: %w", ErrNotSent, cause) }
