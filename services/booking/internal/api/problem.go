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

var (
	errNoPage  = &web.Problem{Type: "/problems/not-found", Status: http.StatusNotFound, Detail: "there is nothing at this path"}
	errNoMatch = web.FieldProblem(http.StatusPreconditionRequired, "precondition-required", "If-Match", "must name the version that is changed: the ETag of its last answer, or *")
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
	if refused, ok := errors.AsType[*web.Problem](err); ok {
		return refuse(refused)
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

// refuse is the answer of a door that stayed shut, or of HTTP itself.
func refuse(p *web.Problem) app.Answer {
	header := map[string]string{"Content-Type": "application/problem+json"}
	maps.Copy(header, p.Header)
	return app.Answer{Status: p.Status, Header: header, Body: p.Encode()}
}

func answerProblem(status int, slug, detail string, faults ...booking.Fault) app.Answer {
	p := web.Problem{Type: "/problems/" + slug, Status: status, Detail: detail}
	for _, f := range faults {
		p.Errors = append(p.Errors, web.FieldError{Field: f.Field, Detail: f.Detail})
	}
	return app.Answer{Status: status, Header: map[string]string{"Content-Type": "application/problem+json"}, Body: p.Encode()}
}
