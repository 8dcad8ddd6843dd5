// Package id builds every identifier of Slotwise from what the thing is: the same facts
// give the same id, on every machine and on every try. Ids are the means by which
// duplicates are recognised, so nothing random and no clock goes into one.
//
// An id holds letters, digits, hyphens and underscores only, so that it is one legal token
// of a NATS subject, a legal Nats-Msg-Id and a legal left part of a Message-ID.
package id

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxLength is the longest id in bytes that [Check] accepts.
const MaxLength = 200

// ErrIllegal says that a string is no legal id: empty, too long, or with a character that a
// NATS subject token, a header or a Message-ID can't carry.
var ErrIllegal = errors.New("illegal id")

// Check returns [ErrIllegal], wrapped with the string, unless s is a legal id.
func Check(s string) error {
	if s == "" || len(s) > MaxLength {
		return fmt.Errorf("%w: length %d", ErrIllegal, len(s))
	}
	for _, r := range s {
		if !legal(r) {
			return fmt.Errorf("%w: %q", ErrIllegal, s)
		}
	}
	return nil
}

func legal(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}

// IsBooking reports whether s has the form of a booking's id: a UUID in lower case
// (RFC 9562 §4; booking ids are version 7, but readers don't depend on it).
func IsBooking(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, r := range s {
		hyphen := i == 8 || i == 13 || i == 18 || i == 23
		hex := r >= '0' && r <= '9' || r >= 'a' && r <= 'f'
		if hyphen && r != '-' || !hyphen && !hex {
			return false
		}
	}
	return true
}

// Event is the id of the event that told version of booking: the CloudEvents id and the
// Nats-Msg-Id under which JetStream drops a second publish.
func Event(booking string, version int64) string {
	return "booking-" + booking + "-v" + strconv.FormatInt(version, 10)
}

// Mail names one e-mail of kind (confirm, move, cancel) about version of booking.
type Mail struct {
	Kind    string
	Booking string
	Version int64
	Host    bool // the host's copy of the mail
	Copy    int  // 0 or 1: the mail that was owed; 2 and more: a resend that somebody asked for
}

// String is the mail's key in the send log and the left part of its Message-ID.
func (m Mail) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "email-%s-%s-v%d", m.Kind, m.Booking, m.Version)
	if m.Host {
		b.WriteString("-host")
	}
	if m.Copy > 1 {
		fmt.Fprintf(&b, "-c%d", m.Copy)
	}
	return b.String()
}

// Reminder is the key of the one reminder for the start that startVersion set. The version
// is in the id because one Message-ID for two starts would be hidden by mailboxes.
func Reminder(booking string, startVersion int64) string {
	return "reminder-" + booking + "-v" + strconv.FormatInt(startVersion, 10)
}

// Webhook is the key of the delivery of one event to one endpoint, and its webhook-id.
func Webhook(event, endpoint string) string {
	return "webhook-" + event + "-" + endpoint
}

// WebhookID is the webhook-id of the delivery key: of a copy that somebody asked for (2 and
// more, as with [Mail]) that of the first, by which a receiver recognises it.
func WebhookID(key string, copied int) string {
	if copied > 1 {
		return strings.TrimSuffix(key, "-c"+strconv.Itoa(copied))
	}
	return key
}

// Notice is the key of the mail that tells somebody what became of the message key.
func Notice(key string) string {
	return "notice-" + key
}

// Unreadable is the key of the held row that stands for an event nobody could read.
func Unreadable(event string) string {
	return "event-" + event
}
