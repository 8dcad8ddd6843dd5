package mail

import (
	"errors"
	netmail "net/mail"
	"strings"
	"unicode"

	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

// ErrAddress says that an address can't be carried by SMTP. The booking service refuses such
// addresses; one that comes here nevertheless must not reach a dialogue.
var ErrAddress = errors.New("the address can't be carried by SMTP")

// addresses returns whom the mail goes to and whom an answer to it goes to: nil when there is
// nobody who would read one. An answer to a notice would go where mail does not arrive.
func addresses(h sendlog.Hand) (to, reply *netmail.Address, err error) {
	customer, customerErr := address(h.Name, h.Address)
	host, hostErr := address("", h.HostAddress)
	switch {
	case h.Kind == sendlog.Notice:
		return host, nil, hostErr
	case h.Role == sendlog.Host:
		return host, customer, hostErr
	}
	return customer, host, customerErr
}

// address returns the mailbox, or nil and [ErrAddress]. The address must be in the one form
// in which SMTP and a header write it alike: ASCII without spaces, controls or comments.
func address(name, addr string) (*netmail.Address, error) {
	for _, c := range []byte(addr) {
		if c <= ' ' || c > '~' {
			return nil, ErrAddress
		}
	}
	parsed, err := netmail.ParseAddress("<" + addr + ">")
	if err != nil || parsed.String() != "<"+addr+">" || len(addr) > 254 { // RFC 5321 §4.5.3.1.3
		return nil, ErrAddress
	}
	// net/mail leaves a backslash as it is in an encoded word, where it can't be read again.
	parsed.Name = strings.ReplaceAll(header(line(name)), `\`, "/")
	return parsed, nil
}

// maxLine is how many characters of typed text one line takes: more than any column holds,
// and few enough that a header can't outgrow 998 bytes (RFC 5322 §2.1.1) where it has no
// space to be folded at.
const maxLine = 400

// line makes one line of typed text: line breaks and other controls become spaces, and runs
// of spaces one.
func line(s string) string {
	s = strings.Join(strings.Fields(clean(s)), " ")
	if all := []rune(s); len(all) > maxLine {
		return string(all[:maxLine]) + "…"
	}
	return s
}

// lines splits typed text into lines without controls; blank ones at the end are left out.
func lines(s string) []string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	var all []string
	for text := range strings.SplitSeq(strings.TrimSpace(s), "\n") {
		all = append(all, strings.TrimRight(clean(text), " "))
	}
	return all
}

// clean replaces controls by spaces and drops the characters that reorder what follows them
// (a name could otherwise rewrite the sentence around it).
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
			return -1
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// header keeps plain text from being read as an encoded word (RFC 2047), which it would be
// in a header only.
func header(s string) string { return strings.ReplaceAll(s, "=?", "= ?") }
