// Package suppress says which refusals are for good: after one of those no more mails go to
// that address, until somebody lifts it. Mails to it are refused at hand, with the reason, and
// nothing is asked of the mail server, which counts such tries against us.
//
// For good are the codes of RFC 3463 §3.2 that say that there is no such mailbox:
//
//	5.1.1    bad destination mailbox address
//	5.1.6    destination mailbox has moved, no forwarding address
//	5.1.10   the domain has a null MX: it takes no mail (RFC 7505 §4.2); Exchange: no such recipient
//
// Not for good, although the mail is refused all the same:
//
//	5.1.2    bad destination system: says what a resolver did not find, and is said of good domains
//	         while DNS has trouble
//	5.1.3    bad address syntax: tells about the server as much as about the address
//	5.2.x    a mailbox that is full or disabled can be made to work again
//	5.7.x    policy: about us, or about this mail
package suppress

import (
	"regexp"
	"slices"
)

var codes = []string{"5.1.1", "5.1.6", "5.1.10"}

// Code reports whether an enhanced status code is for good.
func Code(enhanced string) bool { return slices.Contains(codes, enhanced) }

// reply is an SMTP reply on one line (RFC 5321 §4.2) that refuses a mailbox and tells why (RFC
// 2034 §4).
var reply = regexp.MustCompile(`^55[013][ -](\d\.\d{1,3}\.\d{1,3})(?:\s|$)`)

// Reply reports whether a server's reply to RCPT, such as "550 5.1.1 no such user", is for good.
func Reply(words string) bool {
	parts := reply.FindStringSubmatch(words)
	return parts != nil && Code(parts[1])
}
