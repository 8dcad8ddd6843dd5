package link

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/pkg/config"
)

// leastKey is the least length of a key in bytes: that of the hash's output (RFC 2104 §3).
const leastKey = 32

// Keys are those that links are signed with: the first signs, all verify. None: there are no
// links.
type Keys struct{ all []key }

type key struct {
	id     byte
	secret []byte
}

func (k key) mac(text []byte) []byte {
	h := hmac.New(sha256.New, k.secret)
	h.Write([]byte(label))
	h.Write(text)
	return h.Sum(nil)[:size-body]
}

// None reports whether there is no key.
func (k Keys) None() bool { return len(k.all) == 0 }

func (k Keys) find(id byte) (key, bool) {
	for _, one := range k.all {
		if one.id == id {
			return one, true
		}
	}
	return key{}, false
}

// Read reads LINK_KEYS, which signing and opening services must have alike.
func Read(env *config.Reader) Keys {
	keys, err := ParseKeys(env.Secret("LINK_KEYS", "keys of the links in customers' mails, the same on booking and notifier, such as 2:<base64>,1:<base64>: the first signs, all verify; without it there are no links"))
	if err != nil {
		env.Mistake("LINK_KEYS", err.Error())
	}
	return keys
}

// ParseKeys reads <id>:<base64>, one or more of it with commas between; an id is a number from 1
// to 255, a key has at least 32 bytes. The empty text has no keys. Errors do not repeat the text.
func ParseKeys(text string) (Keys, error) {
	var keys Keys
	if text == "" {
		return keys, nil
	}
	for i, one := range strings.Split(text, ",") {
		name, secret, _ := strings.Cut(strings.TrimSpace(one), ":")
		number, err := strconv.ParseUint(name, 10, 8)
		if err != nil || number == 0 {
			return Keys{}, fmt.Errorf("must be keys such as 1:<base64>, with commas between; number %d has no id from 1 to 255", i+1)
		}
		raw, err := base64.StdEncoding.Strict().DecodeString(secret)
		switch {
		case err != nil:
			return Keys{}, fmt.Errorf("has a key %d that is no base64 with padding, as `openssl rand -base64 32` prints it", number)
		case len(raw) < leastKey:
			return Keys{}, fmt.Errorf("has a key %d of %d bytes; it takes at least %d", number, len(raw), leastKey)
		}
		if _, twice := keys.find(byte(number)); twice {
			return Keys{}, errors.New("has two keys of one id; a new key takes a new id")
		}
		keys.all = append(keys.all, key{byte(number), raw})
	}
	return keys, nil
}
