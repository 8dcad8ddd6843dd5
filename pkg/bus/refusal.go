package bus

import (
	"errors"
	"net/http"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Codes of nats-server that this package's users look at. The names follow the server's.
const (
	CodeInsufficientResources  jetstream.ErrorCode = 10023 // the server's storage
	CodeAccountResources       jetstream.ErrorCode = 10002 // the account's storage
	CodeClusterNotAvailable    jetstream.ErrorCode = 10008
	CodeNotEnabledForAccount   jetstream.ErrorCode = 10039
	CodeWrongStream            jetstream.ErrorCode = 10060 // Nats-Expected-Stream is another
	CodeWrongLastSequence      jetstream.ErrorCode = 10071 // a create-only message exists
	CodeStoreFailed            jetstream.ErrorCode = 10077 // the stream is full
	CodeStreamSealed           jetstream.ErrorCode = 10109
	CodeDuplicateInProcess     jetstream.ErrorCode = 10158 // neither stored nor refused yet
	CodeWrongLastSequenceOfTwo jetstream.ErrorCode = 10164 // another create-only message is on its way
)

// Code is nats-server's code of a refusal, or 0 when err is none.
func Code(err error) jetstream.ErrorCode {
	if refusal, ok := errors.AsType[*jetstream.APIError](err); ok {
		return refusal.ErrorCode
	}
	return 0
}

// ofStream are refusals that say nothing about the message: any other would fare the same.
// Codes decide, not the HTTP status beside them: some of these come with 400.
var ofStream = map[jetstream.ErrorCode]bool{
	CodeInsufficientResources: true,
	CodeAccountResources:      true,
	CodeClusterNotAvailable:   true,
	CodeNotEnabledForAccount:  true,
	CodeStoreFailed:           true,
	CodeStreamSealed:          true,
	CodeDuplicateInProcess:    true,
}

// OfMessage reports whether err is a refusal of the message itself: too large, a subject or
// header that can't be. The same message will be refused again, and others will not.
func OfMessage(err error) bool {
	if refusal, ok := errors.AsType[*jetstream.APIError](err); ok {
		return !ofStream[refusal.ErrorCode] && refusal.ErrorCode != CodeWrongStream && refusal.Code < http.StatusInternalServerError
	}
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) || errors.Is(err, nats.ErrBadHeaderMsg)
}
