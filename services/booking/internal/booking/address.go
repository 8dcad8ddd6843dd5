package booking

import (
	"regexp"
	"strings"
)

// maxAddress is the longest address that fits an SMTP path (RFC 5321 §4.5.3.1.3 less its angle
// brackets); maxLocal is the longest local part (§4.5.3.1.1).
const (
	maxAddress = 254
	maxLocal   = 64
)

// atoms is a dot-string: the local part that every server takes unquoted (RFC 5321 §4.1.2).
// labels are the names of a domain (RFC 1123 §2.1).
var (
	atoms  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*$")
	labels = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])$`)
)

// addressFault says why a mail can't be sent to s as it stands. What is stored is what is
// sent, so nothing is stripped, decoded or guessed. Refused although RFC 5321 has them:
//   - quoted local parts ("a b"@x.example): relays rewrite or drop them;
//   - address literals (a@[192.0.2.1]) and domains of one label (a@localhost);
//   - anything but ASCII: the next server may lack SMTPUTF8 (RFC 6531). A domain may be
//     written in its ASCII form, xn--….
//
// Display names, comments and white space are no part of an address.
func addressFault(s string) string {
	at := strings.LastIndexByte(s, '@')
	switch {
	case s == "":
		return "is required"
	case strings.ContainsFunc(s, func(r rune) bool { return r > '~' }):
		return "must be ASCII; write an international domain as xn--…"
	case at < 0:
		return "must be an address such as name@example.org"
	case len(s) > maxAddress || at > maxLocal:
		return "is too long: at most 254 characters, 64 of them before the @"
	case !atoms.MatchString(s[:at]):
		return "must have before the @ only letters, digits, single dots and !#$%&'*+/=?^_`{|}~-, unquoted"
	case !labels.MatchString(s[at+1:]):
		return "must have after the @ a full domain such as example.org"
	}
	return ""
}

// Normalise returns the form in which one person's addresses are equal. Servers may tell
// upper and lower case of a local part apart (RFC 5321 §2.4); people don't.
func Normalise(address string) string { return strings.ToLower(address) }
