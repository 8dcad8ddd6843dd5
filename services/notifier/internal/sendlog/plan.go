package sendlog

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// row is a message in the columns of the table; empty means null.
type row struct {
	Key          string    `json:"key"`
	Channel      Channel   `json:"channel"`
	Booking      string    `json:"booking,omitempty"`
	Kind         Kind      `json:"kind"`
	Version      int64     `json:"version,omitempty"`
	StartVersion int64     `json:"start_version,omitempty"`
	Role         Role      `json:"role,omitempty"`
	Endpoint     string    `json:"endpoint,omitempty"`
	Copy         int       `json:"copy"`
	Urgency      int       `json:"urgency"`
	State        State     `json:"state"`
	Reason       string    `json:"reason,omitempty"`
	DueAt        time.Time `json:"due_at"`
	Payload      Facts     `json:"payload"`
}

//go:embed plan.sql
var planSQL string

// Plan writes the messages that are not in the log yet and returns their keys. It is one
// transaction: after an error nothing, or (when the commit's answer was lost) everything is
// written; planning all of them again is right in both cases.
//
// What is planned more than [Times.Late] after it was due goes last; what would be due in a
// quiet time of its slot is due at the end of it.
func (l *Log) Plan(ctx context.Context, messages []Message) ([]string, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	text, err := encodeRows(messages)
	if err != nil {
		return nil, err
	}
	inserted, err := l.pool.Query(ctx, planSQL, text, l.times.Late)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	keys, err := pgx.CollectRows(inserted, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	if len(keys) > 0 {
		l.Wake()
	}
	if len(keys) > 0 && slices.ContainsFunc(messages, func(m Message) bool { return m.Channel == Webhook }) {
		l.WakeWebhooks()
	}
	return keys, nil
}

// encodeRows is what plan.sql reads.
func encodeRows(messages []Message) (string, error) {
	rows := make([]row, len(messages))
	for i, m := range messages {
		rows[i] = row{
			Key: m.Key, Channel: m.Channel, Booking: m.Booking, Kind: m.Kind, Version: m.Version, StartVersion: m.StartVersion,
			Role: m.Role, Endpoint: m.Endpoint, Copy: max(m.Copy, 1), Urgency: m.Urgency,
			State: cmp.Or(m.State, Planned), Reason: m.Reason, DueAt: m.DueAt, Payload: m.Facts,
		}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return "", fmt.Errorf("plan: %w", err)
	}
	return string(text), nil
}
