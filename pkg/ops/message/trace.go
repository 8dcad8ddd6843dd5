package message

import "time"

// Trace is the answer of ops.get.trace: the story of one booking's messages, from PostgreSQL
// and from the streams.
type Trace struct {
	Booking string    `json:"booking"`
	At      time.Time `json:"at"`              // on the database's clock
	Facts   *Facts    `json:"facts,omitempty"` // none: there is no such booking

	Messages   []Message   `json:"messages"` // in the order in which they were planned
	Owed       []Owed      `json:"owed"`     // what is owed and has no message yet
	Outbox     []Outbox    `json:"outbox"`   // the booking's events that are still kept there
	Audit      Audit       `json:"audit"`
	Events     Events      `json:"events"`
	Reminders  Reminders   `json:"reminders"`
	Switches   []Switch    `json:"switches"`
	Operations []Operation `json:"operations"` // that may have touched these messages, the last ones

	// Cut says that messages, hands or words were left off, so that the answer fits into a
	// NATS message.
	Cut bool `json:"cut,omitempty"`
}

// Facts are how a booking stands.
type Facts struct {
	Version      int64      `json:"version"`
	StartVersion int64      `json:"start_version"`
	ToldCustomer int64      `json:"told_customer"`
	ToldHost     int64      `json:"told_host"`
	Status       string     `json:"status"`
	Start        time.Time  `json:"start"`
	End          time.Time  `json:"end"`
	RemindAt     *time.Time `json:"remind_at,omitempty"`
	Seats        int        `json:"seats"`
	Resource     string     `json:"resource"`
	Zone         string     `json:"zone"`
	HasHost      bool       `json:"has_host"`
	Erased       bool       `json:"erased"`
}

// Owed is a message that a booking owes and that nobody has planned yet, and why.
type Owed struct {
	Kind    string `json:"kind"` // mail or reminder
	Role    string `json:"role"`
	Version int64  `json:"version,omitempty"`
	Verdict string `json:"verdict"`
}

// Outbox is an event where the relay finds it.
type Outbox struct {
	ID          int64      `json:"id"`
	Subject     string     `json:"subject"`
	MessageID   string     `json:"message_id"`
	CreatedAt   time.Time  `json:"created_at"`
	Attempts    int        `json:"attempts"`
	LastError   string     `json:"last_error,omitempty"`
	ParkedAt    *time.Time `json:"parked_at,omitempty"`
	PublishedAt *time.Time `json:"published_at,omitempty"`
}

// Audit is how far the audit has come: outbox rows up to Mark are planned.
type Audit struct {
	Mark     int64     `json:"mark"`
	PassedAt time.Time `json:"passed_at"`
}

// Events are what the stream BOOKINGS holds of the booking.
type Events struct {
	Found []Event `json:"found"`
	Error string  `json:"error,omitempty"` // the stream could not be read
}

// Event is one of them.
type Event struct {
	Sequence uint64    `json:"sequence"`
	ID       string    `json:"id"` // Nats-Msg-Id
	Subject  string    `json:"subject"`
	Stored   time.Time `json:"stored"`
}

// Reminders are what the stream REMINDERS holds of the booking.
type Reminders struct {
	Found []Reminder `json:"found"`
	Error string     `json:"error,omitempty"` // the stream could not be read
}

// Reminder waits for its time, or has fired and waits for the planner.
type Reminder struct {
	Subject  string     `json:"subject"`
	Schedule *time.Time `json:"schedule,omitempty"` // when it fires; none: it has fired
	Stored   time.Time  `json:"stored"`
}

// Operation is what an operator did.
type Operation struct {
	At        time.Time `json:"at"`
	Operator  string    `json:"operator"`
	Operation string    `json:"operation"`
	Arguments any       `json:"arguments"`
	Affected  *int64    `json:"affected,omitempty"`
}
