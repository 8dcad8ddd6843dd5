package mail

import (
	"github.com/slotwise/slotwise/pkg/link"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

// Links are the links by which customers act, in the mails to them. The zero value puts none in.
type Links struct {
	Base string // where customers reach the booking service, without a slash at its end
	Keys link.Keys
}

// of returns the link of h, if it gets one. It follows from the row's facts and the contact alone,
// so that every try says the same. The host's mails have none: who may act for the customer is
// the customer.
func (l Links) of(h sendlog.Hand) string {
	if l.Base == "" || l.Keys.None() || h.Role != sendlog.Customer {
		return ""
	}
	token, err := l.Keys.Sign(link.For(h.Booking, h.Customer, h.Facts.End))
	if err != nil {
		return "" // facts that can't be signed for; better a mail without it than none
	}
	return l.Base + "/b/" + token
}
