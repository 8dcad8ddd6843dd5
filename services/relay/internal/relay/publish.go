package relay

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/outbox"
)

// batchFrom is how many rows make an atomic batch worth its fixed cost (measured).
const batchFrom = 50

// fate is what became of the rows of one claim.
type fate struct {
	published  []int64
	duplicates int // of published: they were stored by an earlier try
	refused    []refusal
	// pause is why the relay has to wait: the rows that are neither published nor refused
	// stay as they were.
	pause error
}

type refusal struct {
	row    outbox.Row
	reason string
}

// publish sends the claim's rows on p, all within the claim's time.
func (l *lane) publish(p *bus.Publisher, rows []outbox.Row, claim clock) fate {
	p.Before = func() error { return claim.over(time.Now()) }
	p.Timeout = l.times.Answer
	msgs := make([]*nats.Msg, len(rows))
	for i, row := range rows {
		msgs[i] = l.message(row)
	}
	if len(rows) >= batchFrom && !l.alone {
		switch _, err := p.PublishBatch(msgs); {
		case err == nil:
			return fate{published: ids(rows)}
		case !aboutMessages(err):
			// One by one next time: some may be stored, one may be at fault, and into a stream
			// that is nearly full some still fit.
			l.alone = true
			return fate{pause: err}
		}
	}
	f := judge(rows, p.Publish(msgs))
	if f.pause == nil {
		l.alone = false
	}
	return f
}

// message makes the row's message. The row's own headers come first, so that they can't
// replace those that the promise rests on.
func (l *lane) message(row outbox.Row) *nats.Msg {
	m := nats.NewMsg(row.Subject)
	for name, value := range row.Headers {
		m.Header.Set(name, value)
	}
	m.Header.Set(jetstream.MsgIDHeader, row.MessageID)
	m.Header.Set(jetstream.ExpectedStreamHeader, l.stream)
	m.Data = row.Payload
	return m
}

// judge tells each row's fate by its answer.
func judge(rows []outbox.Row, answers []bus.Answer) fate {
	var f fate
	lastStored := -1
	for i, a := range answers {
		if a.Err == nil {
			lastStored = i
			f.published = append(f.published, rows[i].ID)
			if a.Ack.Duplicate {
				f.duplicates++
			}
		}
	}
	for i, a := range answers {
		switch {
		case a.Err == nil:
		case bus.OfMessage(a.Err):
			f.refused = append(f.refused, refusal{rows[i], a.Err.Error()})
		case i < lastStored && (nobodyTakes(a.Err) || noAnswer(a.Err)):
			f.refused = append(f.refused, refusal{rows[i], "not acknowledged, but later events were: " + a.Err.Error()})
		case f.pause == nil:
			f.pause = a.Err
		}
	}
	return f
}

// nobodyTakes reports whether the subject is none of the stream's, or there is no stream.
func nobodyTakes(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || bus.Code(err) == bus.CodeWrongStream
}

// noAnswer reports whether it is not known what became of what was sent.
func noAnswer(err error) bool { return errors.Is(err, nats.ErrTimeout) }

// aboutMessages reports whether a batch's refusal may be one message's fault, or one of
// batches as such.
func aboutMessages(err error) bool { return bus.OfMessage(err) || nobodyTakes(err) }

// answered reports whether the server itself refused: the connection is in order.
func answered(err error) bool {
	return bus.Code(err) != 0 || errors.Is(err, jetstream.ErrNoStreamResponse)
}

func ids(rows []outbox.Row) []int64 {
	all := make([]int64, len(rows))
	for i, row := range rows {
		all[i] = row.ID
	}
	return all
}
