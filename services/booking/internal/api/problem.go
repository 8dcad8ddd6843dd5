package api

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"

	"github.com/slotwise/slotwise/pkg/web"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
)

// requestError is a request that HTTP itself refuses.
type requestError struct {
	status int
	slug   string
	detail string
	field  string    // what is wrong, if it is one field or header
	header [2]string // name and value of one more header of the answer
}

func (e *requestError) Error() string { return e.slug + ": " + e.detail }

var (
	errNoPage     = &requestError{status: http.StatusNotFound, slug: "not-found", detail: "there is nothing at this path"}
	errTooLarge   = &requestError{status: http.StatusRequestEntityTooLarge, slug: "body-too-large", field: "body", detail: "must have at most 65536 bytes"}
	errUnreadable = &requestError{status: http.StatusBadRequest, slug: "unreadable-body", detail: "the body could not be read to its end"}
	errNotJSON    = &requestError{
		status: http.StatusUnsupportedMediaType, slug: "unsupported-media-type", field: "Content-Type",
		detail: "must be application/json in UTF-8, without a content encoding", header: [2]string{"Accept", "application/json"},
	}
	errNoMatch = &requestError{
		status: http.StatusPreconditionRequired, slug: "precondition-required", field: "If-Match",
		detail: "must name the version that is changed: the ETag of its last answer, or *",
	}
)

// known errors, each with its status and the slug that programs go by. The first match wins.
var known = []struct {
	err    error
	status int
	slug   string
	detail string
}{
	{booking.ErrNotFound, http.StatusNotFound, "booking-not-found", "there is no such booking"},
	{booking.ErrVersion, http.StatusPreconditionFailed, "version-mismatch", "the booking has changed: read it again"},
	{booking.ErrCancelled, http.StatusConflict, "booking-cancelled", "the booking is cancelled"},
	{booking.ErrOver, http.StatusConflict, "booking-over", "the booking is over: its customer can only see it"},
	{booking.ErrErased, http.StatusConflict, "person-erased", "the person of this booking was erased"},
	{app.ErrKeyRunning, http.StatusConflict, "idempotency-key-in-use", "a request with this Idempotency-Key is still running"},
	{app.ErrKeyReused, http.StatusUnprocessableEntity, "idempotency-key-reused", "this Idempotency-Key was used for another request"},
	{app.ErrAway, http.StatusServiceUnavailable, "unavailable", "the service can't work now; whether the change was made is not known: repeat it with the same Idempotency-Key"},
}

// retryAfter is in seconds, of statuses after which the same request may succeed.
var retryAfter = map[string]string{"idempotency-key-in-use": "1", "unavailable": "2"}

// problem is the answer that tells err. What no rule knows is our fault; its text stays here.
func problem(err error) app.Answer {
	if own, ok := errors.AsType[*answeredError](err); ok {
		return own.answer
	}
	if refused, ok := errors.AsType[*requestError](err); ok {
		return refused.answer()
	}
	if invalid, ok := errors.AsType[*booking.InvalidError](err); ok {
		return answerProblem(http.StatusUnprocessableEntity, "invalid-request", "the request has faults", invalid.Faults...)
	}
	if taken, ok := errors.AsType[*booking.TakenError](err); ok {
		detail := fmt.Sprintf("%d seats are free throughout that time, %d more are asked for", taken.Left, taken.Asked)
		return answerProblem(http.StatusConflict, "slot-taken", detail, booking.Fault{Field: taken.Field, Detail: "not enough seats are free"})
	}
	if many, ok := errors.AsType[*app.TooManyMailsError](err); ok {
		answer := answerProblem(http.StatusTooManyRequests, "too-many-mails", "so many mails were owed to this address in the last hour that another has to wait")
		answer.Header["Retry-After"] = strconv.Itoa(int(math.Ceil(many.Wait.Seconds())))
		return answer
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			answer := answerProblem(k.status, k.slug, k.detail)
			if seconds := retryAfter[k.slug]; seconds != "" {
				answer.Header["Retry-After"] = seconds
			}
			return answer
		}
	}
	return answerProblem(http.StatusInternalServerError, "internal", "")
}

// refuse is the answer of a door that stayed shut.
func refuse(p *web.Problem) app.Answer {
	header := map[string]string{"Content-Type": "application/problem+json"}
	maps.Copy(header, p.Header)
	return app.Answer{Status: p.Status, Header: header, Body: p.Encode()}
}

func (e *requestError) answer() app.Answer {
	var faults []booking.Fault
	if e.field != "" {
		faults = []booking.Fault{{Field: e.field, Detail: e.detail}}
	}
	answer := answerProblem(e.status, e.slug, e.detail, faults...)
	if e.header[0] != "" {
		answer.Header[e.header[0]] = e.header[1]
	}
	return answer
}

func answerProblem(status int, slug, detail string, faults ...booking.Fault) app.Answer {
	p := web.Problem{Type: "/problems/" + slug, Status: status, Detail: detail}
	for _, f := range faults {
		p.Errors = append(p.Errors, web.FieldError{Field: f.Field, Detail: f.Detail})
	}
	return app.Answer{Status: status, Header: map[string]string{"Content-Type": "application/problem+json"}, Body: p.Encode()}
}
