package sendlog

import "time"

// Channel is the way a message takes.
type Channel string

// The channels. Event is no way out: its rows stand, held, for events nobody could read.
const (
	Email   Channel = "email"
	Webhook Channel = "webhook"
	Event   Channel = "event"
)

// Kind is what a message tells.
type Kind string

// The kinds of messages.
const (
	Confirm    Kind = "confirm"
	Move       Kind = "move"
	Cancel     Kind = "cancel"
	Reminder   Kind = "reminder"
	Notice     Kind = "notice"  // what became of another message, to a host or an owner
	WebhookFor Kind = "webhook" // an event, to an endpoint
	Unreadable Kind = "event"   // stands for an event nobody could read
)

// Role is whom an e-mail is for. Booking and role together are a slot: one dialogue at a time.
type Role string

// The roles.
const (
	Customer Role = "customer"
	Host     Role = "host"
)

// State is where a message stands; doc.go draws the steps between them.
type State string

// The states.
const (
	Planned State = "planned"
	Handed  State = "handed"
	Sent    State = "sent"
	Refused State = "refused"
	Unknown State = "unknown"
	Held    State = "held"
	Skipped State = "skipped"
)

// Urgencies: the lower goes first.
const (
	UrgentCustomer = 0
	UrgentHost     = 1
	UrgentReminder = 2
	UrgentBacklog  = 3 // after the first 4xx, or planned over ten minutes late
)

// Message is what is owed: one row of the send log, as it is planned.
type Message struct {
	Key          string // package id builds it; planning the same key twice is nothing
	Channel      Channel
	Booking      string // UUID; empty when it is about none
	Kind         Kind
	Version      int64 // of the booking; 0 when it is about none
	StartVersion int64
	Role         Role   // empty for channels without one
	Endpoint     string // of a webhook
	Copy         int    // 1: the message that was owed; 0 means 1
	Urgency      int
	State        State  // Planned (or empty), or Held with a reason
	Reason       string // why it is held
	DueAt        time.Time
	Facts        Facts
}

// Facts are what the message says: the same on every try, taken from the event (or, for a
// reminder, from the booking when it was planned), never from a later edit. No person.
type Facts struct {
	Status   string    `json:"status,omitempty"`
	Resource string    `json:"resource,omitempty"`
	Start    time.Time `json:"start,omitzero"`
	End      time.Time `json:"end,omitzero"`
	Zone     string    `json:"zone,omitempty"`
	Seats    int       `json:"seats,omitempty"`

	Event []byte `json:"event,omitempty"` // a webhook's body, or the bytes nobody could read (base64 in JSON)
	About string `json:"about,omitempty"` // of a notice: the key of the message that it is about
	Why   string `json:"why,omitempty"`   // of a notice: why that message did not arrive
}

// Hand is one message in hand: what the transaction that took it returned. Key and Token
// together name it.
type Hand struct {
	Message
	Token     string    // UUID, new with every hand
	N         int       // hands of this row so far, this one included
	CreatedAt time.Time // of the row: the mail's Date on every try
	HandedAt  time.Time // on the database's clock

	ResourceName string
	HostAddress  string // empty: the resource has no host. Of a notice about an endpoint: its owner's
	Customer     string // UUID of whoever the contact is
	Name         string // of the contact
	Address      string // of the contact, as typed
	Locale       string
	Note         string

	EndpointURL   string // of a notice about an endpoint
	EndpointAbout string // its description

	// FirstNews says that no confirmation of this role, and no move worded as one, was sent or
	// may have been: a move is then worded as a confirmation.
	FirstNews bool

	Attempts int    // 4xx answers to this message so far
	Unknowns int    // hands before this one that may have left a copy
	Late     bool   // past due by Times.Late when it was handed: SEND_RATE paces it
	Lease    *Lease // until when it may go on
}

// To is the address that the mail goes to.
func (h Hand) To() string {
	if h.Role == Host {
		return h.HostAddress
	}
	return h.Address
}
