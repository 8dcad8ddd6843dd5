package pkgtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/proxy"
)

func publisher(t *testing.T, nc *nats.Conn) *bus.Publisher {
	t.Helper()
	p, err := bus.NewPublisher(nc)
	if err != nil {
		t.Fatal(err)
	}
	p.Timeout = 2 * time.Second
	return p
}

// messages are the messages from one number to another.
func messages(from, to int) []*nats.Msg {
	var all []*nats.Msg
	for n := from; n <= to; n++ {
		m := nats.NewMsg(subject(n))
		m.Header.Set(jetstream.MsgIDHeader, fmt.Sprintf("m-%d", n))
		all = append(all, m)
	}
	return all
}

func stream(t *testing.T, server *bustest.Server, change func(*jetstream.StreamConfig)) {
	t.Helper()
	config := jetstream.StreamConfig{Name: topology.Bookings}
	topology.Streams(topology.Sizes{Replicas: 1})[0].Shape(&config)
	if change != nil {
		change(&config)
	}
	js := server.JetStream(bustest.Admin)
	defer js.Conn().Close()
	if _, err := js.CreateOrUpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

func TestPublishTellsEachOnesFate(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	stream(t, server, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 2000 })
	p := publisher(t, server.Connect("relay"))
	msgs := messages(1, 9)
	msgs[1].Header.Set(jetstream.MsgIDHeader, "m-1")                          // stored already
	msgs[2].Data = []byte(strings.Repeat("x", 5000))                          // the stream refuses it
	msgs[3].Data = []byte(strings.Repeat("x", 300_000))                       // the server would
	msgs[4].Subject = "booking.v1.other.x.y"                                  // nobody takes it
	msgs[5].Subject = "booking.v1. .x"                                        // no subject
	msgs[6].Header.Set(jetstream.ExpectedStreamHeader, topology.Reminders)    // another stream's
	msgs[7].Header.Set("Nats-Batch-Id", "left from a batch that was refused") // no matter
	answers := p.Publish(msgs)
	for i, want := range []struct {
		ofMessage bool
		is        func(bus.Answer) bool
	}{
		{false, func(a bus.Answer) bool { return a.Err == nil && a.Ack.Sequence == 1 && !a.Ack.Duplicate }},
		{false, func(a bus.Answer) bool { return a.Err == nil && a.Ack.Sequence == 1 && a.Ack.Duplicate }},
		{true, func(a bus.Answer) bool { return bus.Code(a.Err) == 10054 }},
		{true, func(a bus.Answer) bool { return errors.Is(a.Err, nats.ErrMaxPayload) }},
		{false, func(a bus.Answer) bool { return errors.Is(a.Err, jetstream.ErrNoStreamResponse) }},
		{true, func(a bus.Answer) bool { return errors.Is(a.Err, nats.ErrBadSubject) }},
		{false, func(a bus.Answer) bool { return bus.Code(a.Err) == bus.CodeWrongStream }},
		{false, func(a bus.Answer) bool { return a.Err == nil && a.Ack.Sequence == 2 }},
		{false, func(a bus.Answer) bool { return a.Err == nil && a.Ack.Sequence == 3 }},
	} {
		if !want.is(answers[i]) || bus.OfMessage(answers[i].Err) != want.ofMessage {
			t.Errorf("message %d: %+v, of the message itself: %t", i+1, answers[i], bus.OfMessage(answers[i].Err))
		}
	}
}

func TestPublishManyMoreThanAreOpenAtOnce(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	stream(t, server, nil)
	p := publisher(t, server.Connect("relay"))
	p.Timeout = 20 * time.Second
	const n = 3*bus.MaxBatch + 7
	for i, a := range p.Publish(messages(1, n)) {
		if a.Err != nil || a.Ack.Sequence != uint64(i)+1 {
			t.Fatalf("message %d: %+v", i+1, a)
		}
	}
}

func TestPublishBatch(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	stream(t, server, nil)
	p := publisher(t, server.Connect("relay"))
	for _, n := range []int{1, 2, bus.MaxBatch} {
		from := int(server.Messages(t.Context(), topology.Bookings)) + 1
		ack, err := p.PublishBatch(messages(from, from+n-1))
		if err != nil || ack.Sequence != uint64(from+n-1) || ack.Count != n || ack.Stream != topology.Bookings {
			t.Errorf("a batch of %d: %+v, %v", n, ack, err)
		}
	}
	before := server.Messages(t.Context(), topology.Bookings)
	for name, c := range map[string]struct {
		change func([]*nats.Msg)
		code   jetstream.ErrorCode
	}{
		"an id that is stored": {func(m []*nats.Msg) { m[50].Header.Set(jetstream.MsgIDHeader, "m-1") }, 10201},
		"an id twice":          {func(m []*nats.Msg) { m[50].Header.Set(jetstream.MsgIDHeader, "m-9001") }, 10201},
		"nobody takes one":     {func(m []*nats.Msg) { m[50].Subject = "booking.v1.other.x.y" }, 10176},
	} {
		msgs := messages(9001, 9100)
		c.change(msgs)
		if _, err := p.PublishBatch(msgs); bus.Code(err) != c.code || !bus.OfMessage(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := server.Messages(t.Context(), topology.Bookings); n != before {
		t.Errorf("%d messages of refused batches are stored", n-before)
	}
	for _, n := range []int{0, bus.MaxBatch + 1} {
		if _, err := p.PublishBatch(messages(1, n)); !errors.Is(err, bus.ErrNotSent) {
			t.Errorf("a batch of %d: %v", n, err)
		}
	}
	stream(t, server, func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false })
	if _, err := p.PublishBatch(messages(9001, 9100)); bus.Code(err) != 10174 {
		t.Errorf("a stream that takes no batches: %v", err)
	}
	// And then one by one, the same messages.
	msgs := messages(9001, 9100)
	_, _ = p.PublishBatch(msgs) // refused
	for i, a := range p.Publish(msgs) {
		if a.Err != nil {
			t.Fatalf("message %d: %v", i+1, a.Err)
		}
	}
}

// What says nothing about the message is no refusal of it.
func TestRefusalsOfTheStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shape func(*jetstream.StreamConfig)
		code  jetstream.ErrorCode
	}{
		"full":   {func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 }, bus.CodeStoreFailed},
		"sealed": {func(c *jetstream.StreamConfig) { c.Sealed = true }, bus.CodeStreamSealed},
	} {
		// A server each: one that has just deleted its last stream may still be removing the
		// folder in which it is told to make the next.
		server := bustest.New(t)
		p := publisher(t, server.Connect("relay"))
		stream(t, server, nil)
		if a := p.Publish(messages(1, 1))[0]; a.Err != nil {
			t.Fatal(a.Err)
		}
		stream(t, server, c.shape)
		if a := p.Publish(messages(2, 2))[0]; bus.Code(a.Err) != c.code || bus.OfMessage(a.Err) {
			t.Errorf("%s: %v", name, a.Err)
		}
		if _, err := p.PublishBatch(messages(2, 60)); bus.Code(err) != c.code || bus.OfMessage(err) {
			t.Errorf("%s, a batch: %v", name, err)
		}
		if err := server.JetStream(bustest.Admin).DeleteStream(t.Context(), topology.Bookings); err != nil {
			t.Fatal(err)
		}
		if _, err := p.PublishBatch(messages(2, 60)); !errors.Is(err, jetstream.ErrNoStreamResponse) {
			t.Errorf("no stream, a batch: %v", err)
		}
	}
}

// Before keeps back a message and all after it; nothing was sent.
func TestBefore(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	stream(t, server, nil)
	p := publisher(t, server.Connect("relay"))
	left, over := 3, errors.New("over")
	p.Before = func() error {
		if left--; left < 0 {
			return over
		}
		return nil
	}
	answers := p.Publish(messages(1, 10))
	for i, a := range answers {
		if sent := i < 3; sent != (a.Err == nil) || !sent && (!errors.Is(a.Err, bus.ErrNotSent) || !errors.Is(a.Err, over)) {
			t.Errorf("message %d: %v", i+1, a.Err)
		}
	}
	left = 70
	if _, err := p.PublishBatch(messages(11, 110)); !errors.Is(err, over) {
		t.Errorf("a batch: %v", err)
	}
	if n := server.Messages(t.Context(), topology.Bookings); n != 3 {
		t.Errorf("%d messages", n)
	}
}

// No answer comes: the outcome is not known. When it comes late, it is no answer to the next.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	stream(t, server, nil)
	way := proxy.New(t, server.URL())
	nc, err := bus.Dial(settings(t, server, way.Addr(), "relay"), nopLog)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	p := publisher(t, nc)
	p.Timeout = 300 * time.Millisecond
	way.Hold(proxy.ToClient)
	for i, a := range p.Publish(messages(1, 3)) {
		if !errors.Is(a.Err, nats.ErrTimeout) || bus.OfMessage(a.Err) {
			t.Errorf("message %d: %v", i+1, a.Err)
		}
	}
	if _, err := p.PublishBatch(messages(4, 63)); !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("a batch: %v", err)
	}
	way.Resume()
	p.Timeout = 10 * time.Second
	var sequences []uint64
	for _, a := range p.Publish(messages(64, 66)) {
		if a.Err != nil || a.Ack.Duplicate {
			t.Fatalf("%+v", a)
		}
		sequences = append(sequences, a.Ack.Sequence)
	}
	if !slices.Equal(sequences, []uint64{64, 65, 66}) {
		t.Errorf("late answers were taken for these: %v", sequences)
	}
}

// The connection goes: nobody waits for the timeout.
func TestConnectionGoes(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	stream(t, server, nil)
	way := proxy.New(t, server.URL())
	nc, err := bus.Dial(settings(t, server, way.Addr(), "relay"), nopLog, nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	p := publisher(t, nc)
	p.Timeout = 30 * time.Second
	way.Hold(proxy.ToClient)
	timer := time.AfterFunc(300*time.Millisecond, way.Cut)
	defer timer.Stop()
	began := time.Now()
	for i, a := range p.Publish(messages(1, 3)) {
		if !errors.Is(a.Err, nats.ErrDisconnected) {
			t.Errorf("message %d: %v", i+1, a.Err)
		}
	}
	if a := p.Publish(messages(4, 4))[0]; !errors.Is(a.Err, nats.ErrConnectionClosed) || !errors.Is(a.Err, bus.ErrNotSent) {
		t.Errorf("on a closed connection: %v", a.Err)
	}
	if _, err := p.PublishBatch(messages(4, 63)); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("a batch on a closed connection: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

// B52: an answer with sequence 0 says that an id is remembered, not that anything is stored.
func TestB52SequenceZero(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	liar := server.Connect(bustest.Admin)
	for body, stored := range map[string]bool{
		`{"stream":"BOOKINGS","seq":0,"duplicate":true}`: false,
		`{"stream":"","seq":7}`:                          false,
		`{"seq":`:                                        false,
		``:                                               false,
		`{"stream":"BOOKINGS","seq":7,"duplicate":true}`: true,
	} {
		sub, err := liar.Subscribe("booking.v1.>", func(m *nats.Msg) { _ = m.Respond([]byte(body)) })
		if err != nil {
			t.Fatal(err)
		}
		if err := liar.Flush(); err != nil {
			t.Fatal(err)
		}
		p := publisher(t, server.Connect("relay"))
		if a := p.Publish(messages(1, 1))[0]; (a.Err == nil) != stored || bus.OfMessage(a.Err) {
			t.Errorf("%s: %+v", body, a)
		}
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
}
