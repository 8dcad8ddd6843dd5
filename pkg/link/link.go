package link

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slotwise/slotwise/pkg/id"
)

// Life is how long after the end of its booking a link still opens: who was there may still want
// to look up when that was.
const Life = 30 * 24 * time.Hour

// Length is that of every token, in characters.
const Length = 71

const (
	label = "slotwise link v1\x00" // a key used for something else signs no link, and the other way round
	body  = 37                     // bytes before the mac
	size  = body + sha256.Size/2
)

// Errors that say why a token opens nothing. A stranger is to see no difference between them.
var (
	ErrInvalid = errors.New("no token of a link")
	ErrExpired = errors.New("the link has expired")
)

// Link is what a token stands for.
type Link struct {
	Booking  string    // UUID in lower case
	Customer string    // the same
	Expires  time.Time // to a minute
}

// For is the link into a mail to customer about booking, which is over at end.
func For(booking, customer string, end time.Time) Link {
	return Link{booking, customer, end.Add(Life + time.Minute - 1).Truncate(time.Minute)}
}

// Sign returns the token of l by the first key. An error says that an id is no UUID, that the
// time is none of the years 1970 to 10136, or that there is no key.
func (k Keys) Sign(l Link) (string, error) {
	if len(k.all) == 0 {
		return "", errors.New("sign a link: there is no key")
	}
	token := make([]byte, 1, size)
	token[0] = k.all[0].id
	for _, uuid := range []string{l.Booking, l.Customer} {
		if !id.IsBooking(uuid) { // the form of every UUID here
			return "", errors.New("sign a link: an id is no UUID")
		}
		token, _ = hex.AppendDecode(token, []byte(strings.ReplaceAll(uuid, "-", ""))) // of that form
	}
	minutes := l.Expires.Unix() / 60
	if minutes < 0 || minutes > 1<<32-1 {
		return "", errors.New("sign a link: its end can't be written")
	}
	token = binary.BigEndian.AppendUint32(token, uint32(minutes)) //nolint:gosec // it fits
	return base64.RawURLEncoding.EncodeToString(append(token, k.all[0].mac(token)...)), nil
}

// Open returns what token stands for, or [ErrInvalid], or [ErrExpired] when it was right until
// its time.
func (k Keys) Open(token string, now time.Time) (Link, error) {
	if len(token) != Length {
		return Link{}, ErrInvalid
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) != size { // shorter: it held line breaks, which are skipped
		return Link{}, ErrInvalid
	}
	signer, ok := k.find(raw[0])
	if !ok || !hmac.Equal(raw[body:], signer.mac(raw[:body])) {
		return Link{}, ErrInvalid
	}
	minutes := binary.BigEndian.Uint32(raw[33:body])
	l := Link{uuid(raw[1:17]), uuid(raw[17:33]), time.Unix(60*int64(minutes), 0).UTC()}
	if !now.Before(l.Expires) {
		return Link{}, ErrExpired
	}
	return l, nil
}

func uuid(b []byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
