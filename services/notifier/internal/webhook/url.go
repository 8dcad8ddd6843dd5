package webhook

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Rules say where deliveries may go. The zero value allows https to public addresses only.
type Rules struct {
	Allow []netip.Prefix // networks that are allowed though they are not public
	HTTP  bool           // http:// is allowed as well
}

// ErrURL says that a URL is no endpoint's.
var ErrURL = errors.New("the URL is not allowed")

// URLError is an [ErrURL] with its reason, which may be shown to who gave the URL.
type URLError struct{ Reason string }

func (e *URLError) Error() string { return ErrURL.Error() + ": " + e.Reason }

// Unwrap makes it an [ErrURL].
func (e *URLError) Unwrap() error { return ErrURL }

// Reasons that [Rules] can do away with.
const (
	NotPublic = "it must not name an address that is not public"
	NotHTTPS  = "it must begin with https://"
)

// maxURL is what the table takes.
const maxURL = 2048

// CheckURL returns an [*URLError] unless deliveries to raw may be tried. It asks no
// name server: what a name stands for is judged whenever a connection is made. A literal
// address is judged here too, and must be written in its usual form, because 2130706433, 0x7f.1
// and 127.1 are 127.0.0.1 to some resolvers.
func CheckURL(raw string, rules Rules) error {
	_, err := parseURL(raw, rules)
	return err
}

func parseURL(raw string, rules Rules) (*url.URL, error) {
	no := func(reason string) (*url.URL, error) { return nil, &URLError{reason} }
	switch {
	case raw == "":
		return no("it is empty")
	case len(raw) > maxURL:
		return no("it is longer than " + strconv.Itoa(maxURL) + " bytes")
	case strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }):
		return no("it must be written in ASCII, without spaces and backslashes")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil: // its text repeats the URL
		return no("it can't be read")
	case u.Scheme != "https" && (u.Scheme != "http" || !rules.HTTP):
		if rules.HTTP {
			return no("it must begin with https:// or http://")
		}
		return no(NotHTTPS)
	case u.User != nil:
		return no("it must not hold a user or a password")
	case u.Fragment != "" || strings.HasSuffix(raw, "#"):
		return no("it must not have a fragment")
	case u.Opaque != "" || u.Hostname() == "":
		return no("it has no host")
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return no("its port is not one of 1 to 65535")
		}
	}
	if reason := checkHost(u, rules); reason != "" {
		return no(reason)
	}
	return u, nil
}

// checkHost says what is wrong with u's host.
func checkHost(u *url.URL, rules Rules) string {
	host := u.Hostname()
	if addr, err := netip.ParseAddr(host); err == nil {
		if !rules.allow(addr) {
			return NotPublic
		}
		return ""
	}
	if strings.HasPrefix(u.Host, "[") {
		return "its address can't be read"
	}
	return checkName(host)
}

// checkName says what is wrong with a host's name: letters, digits, hyphens, underscores and dots. A
// name whose last label is a number is an address in some form (as the URL standard of WHATWG
// judges too, "ends in a number").
func checkName(host string) string {
	name := strings.TrimSuffix(host, ".")
	if len(name) > 253 {
		return "its host's name is too long"
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
		}) {
			return "its host's name has an illegal character, or an empty or overlong part"
		}
	}
	if number(labels[len(labels)-1]) {
		return "its host must be a name, or an address in the usual form"
	}
	return ""
}

// number reports whether a label is one of an address: decimal, octal or hexadecimal.
func number(label string) bool {
	digits, hex := strings.CutPrefix(strings.ToLower(label), "0x")
	return !strings.ContainsFunc(digits, func(r rune) bool {
		return (r < '0' || r > '9') && (!hex || r < 'a' || r > 'f')
	})
}

// allow reports whether a connection to addr may be made.
func (r Rules) allow(addr netip.Addr) bool {
	return public(addr) || within(addr.Unmap(), r.Allow)
}
