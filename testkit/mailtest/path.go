package mailtest

import (
	"net/mail"
	"strings"
)

// path reads <address> and what follows from the argument of MAIL or RCPT. The address is
// empty for the null sender.
func path(arg, prefix string) (address, params string, ok bool) {
	if len(arg) < len(prefix) || !strings.EqualFold(arg[:len(prefix)], prefix) {
		return "", "", false
	}
	inner, params, ok := strings.Cut(strings.TrimSpace(arg[len(prefix):]), ">")
	address, open := strings.CutPrefix(inner, "<")
	if !ok || !open {
		return "", "", false
	}
	if address == "" {
		return "", params, true
	}
	parsed, err := mail.ParseAddress("<" + address + ">")
	return address, params, err == nil && parsed.Name == ""
}

// after returns the word that follows prefix in a list of words.
func after(words, prefix string) string {
	for word := range strings.FieldsSeq(words) {
		if value, ok := strings.CutPrefix(strings.ToUpper(word), prefix); ok {
			return value
		}
	}
	return ""
}
