package inbox

import (
	"net/mail"
	"strings"
	"time"

	"github.com/slotwise/slotwise/testkit/letter"
)

// Summary is a mail in the list; fields and JSON names are Mailpit's.
type Summary struct {
	ID          string
	MessageID   string // without <>
	Read        bool
	From        Address
	To          []Address
	Cc          []Address
	Bcc         []Address
	ReplyTo     []Address
	Subject     string
	Created     time.Time // of receipt
	Tags        []string
	Size        int
	Attachments int
	Snippet     string
}

// Address is a mailbox with its name.
type Address struct {
	Name    string
	Address string
}

// String shows the address as a person reads it.
func (a Address) String() string {
	if a.Name == "" {
		return a.Address
	}
	return a.Name + " <" + a.Address + ">"
}

// snippetLength bounds the text in the list, in runes; headerLength that of a header.
const (
	snippetLength = 250
	headerLength  = 1000
)

// summarize reads what the list shows of a mail. What can't be read is left out.
func summarize(id string, received time.Time, raw []byte) Summary {
	l, _ := letter.Parse(raw) // a mail that can't be read is listed all the same
	s := Summary{
		ID: id, Created: received.UTC(), Size: len(raw), Tags: []string{}, Bcc: []Address{},
		MessageID: clip(l.MessageID, headerLength), Subject: clip(l.Subject, headerLength),
		From: Address{l.From.Name, l.From.Address}, To: addresses(l.To), Cc: addresses(l.Cc), ReplyTo: addresses(l.ReplyTo),
		Snippet: clip(strings.Join(strings.Fields(l.Text), " "), snippetLength),
	}
	for _, p := range l.Parts {
		if p.Name != "" {
			s.Attachments++
		}
	}
	return s
}

func addresses(list []*mail.Address) []Address {
	all := make([]Address, 0, len(list))
	for _, a := range list {
		all = append(all, Address{a.Name, a.Address})
	}
	return all
}

// clip cuts a text after n runes. The result does not keep the whole text in memory.
func clip(text string, n int) string {
	runes := []rune(strings.ToValidUTF8(text, "\uFFFD"))
	return string(runes[:min(n, len(runes))])
}
