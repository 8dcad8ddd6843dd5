// Package link makes and reads the tokens of customers' links, /b/<token>: who has one may see,
// move and cancel one booking. The notifier signs them into mails, the booking service opens
// them; nobody else has the keys.
//
// # The form
//
// A token is 53 bytes in base64url without padding (RFC 4648 §5), 71 characters:
//
//	 0  key      1 byte: which key signed it, 1 to 255
//	 1  booking  16 bytes: UUID
//	17  customer 16 bytes: UUID of whom the mail went to
//	33  expires  4 bytes, big-endian: minutes since 1970; from then on it opens nothing
//	37  mac      16 bytes: HMAC-SHA256 by that key of "slotwise link v1", a zero byte and all
//	             that stands before it, cut in half (RFC 2104 §5)
//
// No name, address or time of the booking is in it. It is the same whenever it is signed for the
// same facts, so that each try of a mail says the same.
//
// # What ends it
//
// A link ends [Life] after the booking's end, as that was when the mail was written; when its
// key is taken away; and when the address of the booking is corrected, because the contact is
// then another customer: that the customer is still the booking's is for the one who opens the
// token to check, under the booking's lock. A later mail brings a new link and leaves the older
// ones alone: they open the same booking.
//
// # Secrets
//
// The token is a credential: it belongs in no log, event, label or error, and errors of this
// package do not repeat it.
package link
