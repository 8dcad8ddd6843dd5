// Package plan decides which messages are owed, and writes them into the send log before
// anything is acknowledged.
//
// The rule stands once, in [Owed] and [Booking.Reminder]: what JetStream brings and what the
// audit finds in PostgreSQL go through the same functions, so both give the same keys, and a
// key is planned once. Planning never looks at what was planned before: an event that comes
// late, twice or after a newer one still owes its messages. Whether a message is still true
// is judged when it is handed.
package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

// Owed returns the mails that e owes. A role is owed one exactly when e's version is the one
// that last owed it a mail.
func Owed(e event.Event) []sendlog.Message {
	kind := tells(e)
	if kind == "" {
		return nil
	}
	var owed []sendlog.Message
	if e.Data.ToldCustomer == e.Data.Version {
		owed = append(owed, mail(e, kind, sendlog.Customer, sendlog.UrgentCustomer))
	}
	if e.Data.ToldHost == e.Data.Version {
		owed = append(owed, mail(e, kind, sendlog.Host, sendlog.UrgentHost))
	}
	return owed
}

// tells is the kind of the mail that tells e, or empty when none does. After a change that has
// no mail of its own, the mail of the present state tells it.
func tells(e event.Event) sendlog.Kind {
	switch e.Type {
	case event.Confirmed:
		return sendlog.Confirm
	case event.Rescheduled:
		return sendlog.Move
	case event.Cancelled:
		return sendlog.Cancel
	case event.Changed:
		if e.Data.Status == event.StatusCancelled {
			return sendlog.Cancel
		}
		return sendlog.Confirm
	case event.Erased:
	}
	return ""
}

func mail(e event.Event, kind sendlog.Kind, role sendlog.Role, urgency int) sendlog.Message {
	d := e.Data
	return sendlog.Message{
		Key:          id.Mail{Kind: string(kind), Booking: d.Booking, Version: d.Version, Host: role == sendlog.Host}.String(),
		Channel:      sendlog.Email,
		Booking:      d.Booking,
		Kind:         kind,
		Version:      d.Version,
		StartVersion: d.StartVersion,
		Role:         role,
		Urgency:      urgency,
		DueAt:        e.Time,
		Facts: sendlog.Facts{
			Status: string(d.Status), Resource: d.Resource, Start: d.Start, End: d.End, Zone: d.Zone, Seats: d.Seats,
		},
	}
}

// Encoded is an event as it lies in the stream or in the outbox.
type Encoded struct {
	MessageID string    // the Nats-Msg-Id; may be missing or illegal
	At        time.Time // when it was stored
	Body      []byte
}

// Owed returns what the event owes: mails, and a webhook to every endpoint that wants it, also
// when nobody is owed a mail. One that can't be read owes a held row, which keeps the bytes for a
// person to see; it must not stop those behind it.
func (e Encoded) Owed() ([]sendlog.Message, []sendlog.Announcement) {
	read, err := event.Decode(e.Body)
	if err != nil {
		return []sendlog.Message{e.held(err.Error())}, nil
	}
	d := read.Data
	return Owed(read), []sendlog.Announcement{{
		Event: read.ID, Type: string(read.Type), Booking: d.Booking, Resource: d.Resource, Version: d.Version, At: read.Time, Body: e.Body,
	}}
}

// maxKept is how much of an event is kept: what an outbox row may have (64 KiB).
const maxKept = 64 << 10

func (e Encoded) held(reason string) sendlog.Message {
	kept := e.Body
	if len(kept) > maxKept {
		reason += fmt.Sprintf("; the first %d of %d bytes are kept", maxKept, len(kept))
		kept = kept[:maxKept]
	}
	return sendlog.Message{
		Key:     e.key(),
		Channel: sendlog.Event,
		Kind:    sendlog.Unreadable,
		Urgency: sendlog.UrgentBacklog,
		State:   sendlog.Held,
		Reason:  reason,
		DueAt:   e.At,
		Facts:   sendlog.Facts{Event: kept},
	}
}

// key names the held row. Without a usable message id the bytes themselves name it: a number
// of the stream would be given again to another message after the store was wiped.
func (e Encoded) key() string {
	if key := id.Unreadable(e.MessageID); e.MessageID != "" && id.Check(key) == nil {
		return key
	}
	sum := sha256.Sum256(e.Body)
	return id.Unreadable("sha256-" + hex.EncodeToString(sum[:]))
}
