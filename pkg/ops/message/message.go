// Package message is what the notifier's ops endpoints read and answer: filters, lists,
// changes, and the story of one booking's messages. There is no person in any of it, but in
// the words of a mail server, which may repeat an address, and in [Suppressions].
package message

import "time"

// Filter says what a message must be. What is empty does not matter.
type Filter struct {
	Keys    []string   `json:"keys,omitempty"`
	States  []string   `json:"states,omitempty"`
	Reason  string     `json:"reason,omitempty"` // part of the reason, in any case; % and _ as in LIKE
	Kind    string     `json:"kind,omitempty"`
	Channel string     `json:"channel,omitempty"`
	Role    string     `json:"role,omitempty"`
	Booking string     `json:"booking,omitempty"`
	Since   *time.Time `json:"since,omitempty"` // when it was planned: from here …
	Until   *time.Time `json:"until,omitempty"` // … to before here
	Limit   int        `json:"limit,omitempty"` // the oldest so many

	Endpoint string `json:"endpoint,omitempty"` // webhooks for this one
}

// Query is what ops.get.messages reads. Without states, keys and booking it asks for what
// waits for a person: held and refused.
type Query struct {
	Filter
	After string `json:"after,omitempty"` // the Next of the page before
}

// Order is what release, retry, discard and resend read. Its filter must not be empty.
type Order struct {
	Filter
	DryRun bool `json:"dry_run,omitempty"` // tell what would change, and change nothing
}

// SwitchOrder is what pause and resume read.
type SwitchOrder struct {
	Switch string `json:"switch"` // mail or webhooks
}

// Message is a row of the send log with its last hand.
type Message struct {
	Key          string     `json:"key"`
	Channel      string     `json:"channel"`
	Booking      string     `json:"booking,omitempty"`
	Kind         string     `json:"kind"`
	Version      int64      `json:"version,omitempty"`
	StartVersion int64      `json:"start_version,omitempty"`
	Role         string     `json:"role,omitempty"`
	Endpoint     string     `json:"endpoint,omitempty"`
	Copy         int        `json:"copy"`
	Urgency      int        `json:"urgency"`
	State        string     `json:"state"`
	Reason       string     `json:"reason,omitempty"`
	CreatedAt    time.Time  `json:"created_at"` // planned
	DueAt        time.Time  `json:"due_at"`
	HandedAt     *time.Time `json:"handed_at,omitempty"`
	LeaseUntil   *time.Time `json:"lease_until,omitempty"`
	QuietUntil   *time.Time `json:"quiet_until,omitempty"`
	AcceptedAt   *time.Time `json:"accepted_at,omitempty"`
	Attempts     int        `json:"attempts"` // 4xx answers
	First4xxAt   *time.Time `json:"first_4xx_at,omitempty"`
	Unknowns     int        `json:"unknowns"` // hands that may have left a copy
	Tries        int        `json:"tries"`    // hands
	Answer       string     `json:"answer,omitempty"`
	AnsweredAt   *time.Time `json:"answered_at,omitempty"`
	BouncedAt    *time.Time `json:"bounced_at,omitempty"` // a report came that it could not be delivered

	Verdict string `json:"verdict,omitempty"` // how it stands, in one line
	Hands   []Hand `json:"hands,omitempty"`   // in a trace only, the last ones
}

// Hand is one time that a message was given to a server.
type Hand struct {
	N        int        `json:"n"`
	Token    string     `json:"token"` // the mail's header Slotwise-Hand
	HandedAt time.Time  `json:"handed_at"`
	EndedAt  *time.Time `json:"ended_at,omitempty"`
	Outcome  string     `json:"outcome,omitempty"`
	Unknown  bool       `json:"unknown,omitempty"` // it may have left a copy
	Answer   string     `json:"answer,omitempty"`
}

// Page is the answer of ops.get.messages, the oldest first. Asking twice gives the same.
type Page struct {
	Messages []Message `json:"messages"`
	Next     string    `json:"next,omitempty"` // ask for more with this as after; empty: that was all
}

// Overdue is the answer of ops.get.overdue.
type Overdue struct {
	Overdue  int       `json:"overdue"` // past due by five minutes, with nothing that explains it
	Held     int       `json:"held"`
	Refused  int       `json:"refused"`
	Messages []Message `json:"messages"` // the overdue ones, the longest first, a hundred at most
}

// Stats is the data of endpoint overdue in `nats micro stats --json`.
type Stats struct {
	Overdue int      `json:"overdue"`
	Held    int      `json:"held"`
	Refused int      `json:"refused"`
	Paused  []string `json:"paused"` // switches
}

// Change is the answer to release, retry, discard and resend.
type Change struct {
	Operation string   `json:"operation"`
	Changed   int      `json:"changed"`
	Keys      []string `json:"keys"` // the first thousand; of a resend: the new messages
	DryRun    bool     `json:"dry_run,omitempty"`
}

// Switch is a pause that an operator may make.
type Switch struct {
	Name      string    `json:"name"`
	Paused    bool      `json:"paused"`
	ChangedAt time.Time `json:"changed_at"`
	ChangedBy string    `json:"changed_by"`
}

// SwitchChange is the answer to pause and resume.
type SwitchChange struct {
	Operation string `json:"operation"`
	Switch    string `json:"switch"`
	Changed   bool   `json:"changed"` // false: it stood so already
}
