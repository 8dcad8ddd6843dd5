package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"strings"
)

const (
	prefix   = "slw_"
	random   = 20 // bytes
	checksum = 5  // bytes
)

// ErrForm says that a text is no key: it has another form, or a typing fault.
var ErrForm = errors.New("not the form of an API key")

var letters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Hash is what is stored of a key, and what it is found by.
type Hash [sha256.Size]byte

// New draws a key.
func New() (text string, hash Hash) {
	var secret [random]byte
	rand.Read(secret[:])
	text = encode(secret)
	return text, sha256.Sum256([]byte(text))
}

// NewID draws the id by which people and logs name a key. It is no secret.
func NewID() string {
	var id [10]byte
	rand.Read(id[:])
	return "key_" + letters.EncodeToString(id[:])
}

// Parse returns the hash of a key, or [ErrForm].
func Parse(text string) (Hash, error) {
	body, ok := strings.CutPrefix(text, prefix)
	if !ok || len(body) != letters.EncodedLen(random+checksum) {
		return Hash{}, ErrForm
	}
	all, err := letters.DecodeString(body)
	if err != nil || encode([random]byte(all[:random])) != text {
		return Hash{}, ErrForm
	}
	return sha256.Sum256([]byte(text)), nil
}

func encode(secret [random]byte) string {
	sum := sha256.Sum256(append([]byte(prefix), secret[:]...))
	return prefix + letters.EncodeToString(append(secret[:], sum[:checksum]...))
}
