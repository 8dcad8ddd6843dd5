package message

import "time"

// Endpoint is who is told of events by webhook. The notifier's HTTP API shows it in the same form.
type Endpoint struct {
	ID             string     `json:"id"`
	URL            string     `json:"url,omitempty"` // none: it was deleted
	Description    string     `json:"description,omitempty"`
	Owner          string     `json:"owner,omitempty"` // the mail address of who is told when it is disabled
	EventTypes     []string   `json:"event_types"`     // null: all
	Resources      []string   `json:"resources"`       // null: all
	Enabled        bool       `json:"enabled"`
	DisabledAt     *time.Time `json:"disabled_at,omitempty"`
	DisabledReason string     `json:"disabled_reason,omitempty"`
	FailingSince   *time.Time `json:"failing_since,omitempty"` // the first failure since the last success
	Concurrency    int        `json:"concurrency"`             // deliveries at once
	Rate           *int       `json:"rate"`                    // deliveries a second; null: no limit
	CreatedAt      time.Time  `json:"created_at"`              // events from then on are delivered
	ChangedAt      time.Time  `json:"changed_at"`
	DeletedAt      *time.Time `json:"deleted_at,omitempty"`
	Secrets        []Secret   `json:"secrets"` // that sign, the current one first
}

// Secret is when a secret was made and until when it signs. Its text is shown once: see
// [NewSecret].
type Secret struct {
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"` // none: the current one
}

// NewSecret is the answer to webhook-create and webhook-rotate.
type NewSecret struct {
	Endpoint string `json:"endpoint"`
	Secret   string `json:"secret"` // whsec_ and base64; never shown again
}

// EndpointSettings are what an endpoint is made from. Absent means: not described, nobody is
// told, all types, all resources, four at once, no limit.
type EndpointSettings struct {
	URL         string   `json:"url"`
	Description string   `json:"description,omitempty"`
	Owner       string   `json:"owner,omitempty"`
	EventTypes  []string `json:"event_types,omitempty"`
	Resources   []string `json:"resources,omitempty"`
	Concurrency *int     `json:"concurrency,omitempty"`
	Rate        *int     `json:"rate,omitempty"`
}

// EndpointQuery is what ops.get.webhooks reads.
type EndpointQuery struct {
	ID      string `json:"id,omitempty"`      // only this one
	Deleted bool   `json:"deleted,omitempty"` // deleted ones as well
	After   string `json:"after,omitempty"`   // the Next of the page before
	Limit   int    `json:"limit,omitempty"`   // by default 100, at most 1000
}

// Endpoints is the answer, in the order of ids.
type Endpoints struct {
	Endpoints []Endpoint `json:"endpoints"`
	Next      string     `json:"next,omitempty"` // ask for more with this as after; empty: that was all
}

// EndpointOrder is what the commands on one endpoint read.
type EndpointOrder struct {
	Endpoint string     `json:"endpoint"`
	Reason   string     `json:"reason,omitempty"`          // webhook-disable
	Overlap  *int       `json:"overlap_seconds,omitempty"` // webhook-rotate: how long the old secret still signs; by default 24 hours
	Since    *time.Time `json:"since,omitempty"`           // webhook-recover
	Key      string     `json:"key,omitempty"`             // webhook-resend: the delivery; the endpoint follows from it
	DryRun   bool       `json:"dry_run,omitempty"`         // webhook-delete: tell how many deliveries it would skip, and change nothing
}

// EndpointChange is the answer to them.
type EndpointChange struct {
	Operation string `json:"operation"`
	Changed   bool   `json:"changed"`           // false: it stood so already
	Messages  int64  `json:"messages"`          // deliveries that were held, planned or skipped by it
	Key       string `json:"key,omitempty"`     // webhook-example, webhook-resend: what is planned
	Secret    string `json:"secret,omitempty"`  // webhook-rotate: never shown again
	DryRun    bool   `json:"dry_run,omitempty"` // webhook-delete: nothing was done
	Problem   string `json:"problem,omitempty"` // why it can't be done as things stand; nothing was done
	Missing   bool   `json:"missing,omitempty"` // there is no such endpoint or delivery
}

// DeliveryQuery is what ops.get.deliveries reads.
type DeliveryQuery struct {
	Endpoint string     `json:"endpoint,omitempty"`
	Key      string     `json:"key,omitempty"` // only this delivery, with its attempts
	States   []string   `json:"states,omitempty"`
	Since    *time.Time `json:"since,omitempty"` // planned since then
	Until    *time.Time `json:"until,omitempty"` // planned before then
	Before   string     `json:"before,omitempty"`
	Limit    int        `json:"limit,omitempty"` // by default 100, at most 1000
}

// Deliveries is the answer, the newest first.
type Deliveries struct {
	Deliveries []Delivery `json:"deliveries"`
	Next       string     `json:"next,omitempty"` // ask for more with this as before; empty: that was all
}

// Delivery is one event for one endpoint.
type Delivery struct {
	Key        string     `json:"key"`
	WebhookID  string     `json:"webhook_id"` // the header: the first key, also of a copy
	Endpoint   string     `json:"endpoint"`
	Type       string     `json:"type,omitempty"`  // of the event
	Event      string     `json:"event,omitempty"` // its id
	Booking    string     `json:"booking,omitempty"`
	Version    int64      `json:"version"`
	Example    bool       `json:"example"`
	Copy       int        `json:"copy"` // 1: the delivery that was owed
	State      string     `json:"state"`
	Reason     string     `json:"reason,omitempty"`
	CreatedAt  time.Time  `json:"created_at"`        // when it was planned
	NextAt     *time.Time `json:"next_at,omitempty"` // the next try, while it waits for one
	AcceptedAt *time.Time `json:"accepted_at,omitempty"`
	Tries      int        `json:"tries"`
	Attempts   []Attempt  `json:"attempts,omitempty"` // of one delivery only: the last hundred
	Body       string     `json:"body,omitempty"`     // of one delivery only: what is sent
}

// Attempt is one try.
type Attempt struct {
	N        int        `json:"n"`
	At       time.Time  `json:"at"`
	EndedAt  *time.Time `json:"ended_at,omitempty"` // none: in hand
	Duration *int64     `json:"duration_ms,omitempty"`
	Status   int        `json:"status,omitempty"`  // of the answer; none: there was none
	Answer   string     `json:"answer,omitempty"`  // the status and the body, 1 KiB of it at most; or why there was none
	Outcome  string     `json:"outcome,omitempty"` // sent, planned (again), held, or unknown: it may have arrived
	Hand     string     `json:"hand"`
}
