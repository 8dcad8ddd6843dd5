package bounce

import (
	"encoding/base32"
	"regexp"
	"strings"

	"github.com/google/uuid"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

// kinds are the beginnings of keys, in one letter.
var kinds = map[string]string{"email-confirm": "c", "email-move": "m", "email-cancel": "x", "reminder": "r"}

var (
	keyForm = regexp.MustCompile(`^(notice-)?(email-confirm|email-move|email-cancel|reminder)-` +
		`([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})-v([1-9]\d{0,18})(-host)?(?:-c([1-9]\d{0,8}))?$`)
	nameForm = regexp.MustCompile(`^(n?)([cmxr])([0-9a-v]{26})v([1-9]\d{0,18})(h?)(?:c([1-9]\d{0,8}))?$`)
	digits   = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding) // RFC 4648 §7
)

// Name shortens the key of a mail to at most 59 small letters and digits, which every server
// carries in a local part (RFC 5321 §4.5.3.1.1: 64 octets) and which survives one that changes
// letters' case. False: the key is of no form that pkg/id makes for mails.
func Name(key string) (name string, ok bool) {
	k := keyForm.FindStringSubmatch(key)
	if k == nil {
		return "", false
	}
	booking, err := uuid.Parse(k[3])
	if err != nil {
		return "", false
	}
	name = kinds[k[2]] + digits.EncodeToString(booking[:]) + "v" + k[4]
	if k[1] != "" {
		name = "n" + name
	}
	if k[5] != "" {
		name += "h"
	}
	if k[6] != "" {
		name += "c" + k[6]
	}
	return name, true
}

// Key is the key that [Name] has shortened. False: no key has that name.
func Key(name string) (key string, ok bool) {
	n := nameForm.FindStringSubmatch(strings.ToLower(name))
	if n == nil {
		return "", false
	}
	raw, err := digits.DecodeString(n[3])
	if err != nil || digits.EncodeToString(raw) != n[3] {
		return "", false
	}
	for kind, letter := range kinds {
		if letter == n[2] {
			key = kind + "-" + uuid.UUID(raw).String() + "-v" + n[4]
		}
	}
	if n[1] != "" {
		key = "notice-" + key
	}
	if n[5] != "" {
		key += "-host"
	}
	if n[6] != "" {
		key += "-c" + n[6]
	}
	return key, true
}

// ReturnPath returns the envelope sender of hands: b+<name>@domain, or from for every mail when
// there is no domain that takes reports.
func ReturnPath(domain, from string) func(sendlog.Hand) string {
	return func(h sendlog.Hand) string {
		if name, ok := Name(h.Key); ok && domain != "" {
			return "b+" + name + "@" + domain
		}
		return from
	}
}

var (
	pathForm = regexp.MustCompile(`(?i)\bb\+([0-9a-z]+)`)
	idForm   = regexp.MustCompile(`\b(?:notice-)?(?:email|reminder)-[A-Za-z0-9_-]+`)
)

// named returns the key that a header's text names: as a return path, a Message-ID, or the
// key itself.
func named(text string) (key string, ok bool) {
	if path := pathForm.FindStringSubmatch(text); path != nil {
		if key, ok := Key(path[1]); ok {
			return key, true
		}
	}
	key = idForm.FindString(text)
	_, ok = Name(key)
	return key, ok
}
