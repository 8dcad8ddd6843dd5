package plan

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/failpoint"
	"github.com/slotwise/slotwise/pkg/topology"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"go.uber.org/zap"
)

// Log is where messages are planned: [sendlog.Log].
type Log interface {
	Plan(ctx context.Context, messages []sendlog.Message) (inserted []string, err error)
	PlanEvents(ctx context.Context, messages []sendlog.Message, events []sendlog.Announcement) (inserted []string, err error)
}

// batch is how many messages of a stream are planned together: 100 rows a transaction are
// written fifteen times as fast as one by one.
const batch = 100

// Planner plans what booking events owe.
type Planner struct {
	Log    Log
	Logger *zap.Logger
}

// Loop returns the loop that plans what the stream BOOKINGS brings.
func (p Planner) Loop(js jetstream.JetStream) bus.Loop {
	return bus.Loop{JS: js, Stream: topology.Bookings, Consumer: topology.Planner, Handle: p.Handle, Max: batch, Log: p.Logger}
}

// Handle plans what msgs owe, all in one call. They are acknowledged only when it returns nil.
func (p Planner) Handle(ctx context.Context, msgs []jetstream.Msg) error {
	var owed []sendlog.Message
	var events []sendlog.Announcement
	for _, m := range msgs {
		messages, told := p.owed(m)
		owed, events = append(owed, messages...), append(events, told...)
	}
	if _, err := p.Log.PlanEvents(ctx, owed, events); err != nil {
		return fmt.Errorf("plan events: %w", err)
	}
	failpoint.Hit("planner.planned")
	return nil
}

func (p Planner) owed(m jetstream.Msg) ([]sendlog.Message, []sendlog.Announcement) {
	at := time.Now()
	if meta, err := m.Metadata(); err == nil {
		at = meta.Timestamp
	}
	owed, events := Encoded{MessageID: m.Headers().Get(nats.MsgIdHdr), At: at, Body: m.Data()}.Owed()
	for _, message := range owed {
		if message.State == sendlog.Held {
			p.Logger.Error("event held", zap.String("key", message.Key), zap.String("subject", m.Subject()), zap.String("reason", message.Reason))
		}
	}
	return owed, events
}
