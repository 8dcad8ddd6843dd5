package message

import "time"

// SuppressionQuery is what ops.get.suppressions reads.
type SuppressionQuery struct {
	Address string `json:"address,omitempty"` // only this one; in any case of letters
	After   string `json:"after,omitempty"`   // the Next of the page before
	Limit   int    `json:"limit,omitempty"`   // by default 100, at most 1000
}

// Suppressions is the answer, in the order of addresses: the only answer that names people.
type Suppressions struct {
	Suppressions []Suppression `json:"suppressions"`
	Next         string        `json:"next,omitempty"` // ask for more with this as after; empty: that was all
}

// Suppression is an address that no mail goes to.
type Suppression struct {
	Address string    `json:"address"` // in small letters
	Reason  string    `json:"reason"`  // the words of the server that refused it
	Since   time.Time `json:"since"`
	Key     string    `json:"key"` // of the message that was refused, or came back
}

// Lift is the answer to lift, whose request is an address, or the key of a message to it.
type Lift struct {
	Lifted bool `json:"lifted"` // false: it was not suppressed
}
