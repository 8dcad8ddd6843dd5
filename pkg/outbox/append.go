package outbox

import (
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
)

// Table is an outbox's qualified name, such as booking.outbox_events. Make one with [In].
type Table struct{ name string }

var tableName = regexp.MustCompile(`^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$`)

// In returns the outbox of that name, schema.table in plain lower-case words.
func In(name string) (Table, error) {
	if !tableName.MatchString(name) {
		return Table{}, fmt.Errorf("outbox %q is not of the form schema.table", name)
	}
	return Table{name}, nil
}

// String is the qualified name.
func (t Table) String() string { return t.name }

// Event is what a service wants published.
type Event struct {
	Key       string            // orders: events of one key are published one after the other
	Subject   string            // NATS subject
	MessageID string            // Nats-Msg-Id: the same for the same fact
	Headers   map[string]string // sent along, such as traceparent
	Payload   []byte
}

// Queue adds the insert of e to batch, which belongs to the transaction of the change that e
// tells.
func (t Table) Queue(batch *pgx.Batch, e Event) {
	headers := []byte("{}")
	if len(e.Headers) > 0 {
		headers, _ = json.Marshal(e.Headers)
	}
	// Text: a map has no type of its own where statements are not described first.
	batch.Queue(`
		insert into `+t.name+` (key, subject, message_id, headers, payload)
		values ($1, $2, $3, $4, $5)`, e.Key, e.Subject, e.MessageID, string(headers), e.Payload)
}
