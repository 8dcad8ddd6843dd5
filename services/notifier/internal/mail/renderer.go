// Package mail renders a message in hand to the bytes of one e-mail: a text and an HTML part
// in English, with times in the resource's zone.
//
// One hand gives the same bytes whenever it is rendered, but for the MIME boundary, which is
// random, and every hand of one row gives the same mail but for the Slotwise-Hand header,
// which names the hand. Date is the row's, not the try's, and the Message-ID is the row's key
// on our domain, so that mailboxes and people recognise a second copy.
//
// Text that people typed (names, notes, a resource's name) never becomes a header, an address
// or markup. An answer goes to the other side: a customer's mail has the host in Reply-To, if
// the resource has one, and the host's copy has the customer.
package mail

import (
	"bytes"
	"fmt"
	netmail "net/mail"

	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	gomail "github.com/wneessen/go-mail"
)

// HandHeader is the header that carries a hand's token: two copies of one mail can be told
// apart by it.
const HandHeader = "Slotwise-Hand"

// Renderer makes mails of one sender.
type Renderer struct {
	From   netmail.Address // of the header; its address is the envelope's sender too
	Domain string          // right part of each Message-ID
	Links  Links           // by which customers act

	boundary string // for tests; empty: a random one for each mail
}

// Render returns the mail of h as RFC 5322 bytes, with CRLF line ends and not yet
// dot-stuffed. An error says why h can't become a mail, in words that hold no person: another
// try would not help, so the message is to be held.
func (r Renderer) Render(h sendlog.Hand) ([]byte, error) {
	c, err := r.compose(h)
	if err != nil {
		return nil, err
	}
	to, reply, err := addresses(h)
	if err != nil {
		return nil, err
	}
	text, html, err := c.bodies()
	if err != nil {
		return nil, err
	}

	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent(), gomail.WithBoundary(r.boundary))
	msg.FromMailAddress(&r.From)
	msg.ToMailAddress(to)
	if reply != nil {
		msg.ReplyToMailAddress(reply)
	}
	msg.Subject(header(c.Subject))
	msg.SetDateWithValue(h.CreatedAt.UTC())
	msg.SetMessageIDWithValue(h.Key + "@" + r.Domain)
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834 §5: nobody on holiday answers
	msg.SetGenHeader("X-Auto-Response-Suppress", "All")  // the same, as Exchange reads it
	msg.SetGenHeader(HandHeader, h.Token)
	msg.SetBodyString(gomail.TypeTextPlain, text)
	msg.AddAlternativeString(gomail.TypeTextHTML, html)

	var b bytes.Buffer
	if _, err := msg.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("write mail: %w", err)
	}
	return b.Bytes(), nil
}
