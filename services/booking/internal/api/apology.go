package api

import (
	"errors"
	"fmt"
	"math"
	"net/http"

	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
	"github.com/slotwise/slotwise/services/booking/internal/page"
)

// apology is the page about an error, with its problem's status and Retry-After. Its booking is
// shown as it stands, where that may be shown and helps.
func (a *api) apology(v *visit, err error, told app.Answer) app.Answer {
	p := page.Page{Notice: v.words(err, told)}
	if v.Customer != "" && told.Status < http.StatusInternalServerError && told.Status != http.StatusNotFound {
		if view, err := a.bookings.GetFor(v.Context(), v.Customer, v.Booking); err == nil {
			p.Booking = v.shown(view)
		}
		if twice, ok := errors.AsType[*twiceError](err); ok && p.Booking != nil {
			p.Booking.Choices = twice.times
		}
	}
	answer, broken := v.page(told.Status, p)
	if broken != nil {
		return told
	}
	if wait := told.Header["Retry-After"]; wait != "" {
		answer.Header["Retry-After"] = wait
	}
	return answer
}

// words tell a customer what kept the request from being done.
func (v *visit) words(err error, told app.Answer) string {
	many, tooMany := errors.AsType[*app.TooManyMailsError](err)
	invalid, isInvalid := errors.AsType[*booking.InvalidError](err)
	_, taken := errors.AsType[*booking.TakenError](err)
	_, twice := errors.AsType[*twiceError](err)
	switch {
	case errors.Is(err, booking.ErrVersion), errors.Is(err, errNoMatch):
		return "Nothing was changed: your booking has changed since that page was made. This is how it stands now."
	case errors.Is(err, booking.ErrCancelled):
		return "Nothing was changed: your booking is cancelled, for good."
	case errors.Is(err, booking.ErrOver):
		return "Nothing was changed: your booking is over."
	case taken:
		return "Nothing was changed: not enough seats are free at that time. Please choose another."
	case twice:
		return "Nothing was changed yet: clocks go back on that day, and that time comes twice. Which one do you mean?"
	case isInvalid && invalid.Faults[0].Field == "start":
		return "Nothing was changed: the new start " + invalid.Faults[0].Detail + "."
	case errors.Is(err, errDeadLink):
		return "This link does not work, or not any more. The newest mail about your booking has one that does."
	case tooMany:
		return fmt.Sprintf("Nothing was changed: so many mails went to your address in the last hour that another has to wait. Please try again in %d minutes.", int(math.Ceil(many.Wait.Minutes())))
	case told.Status == http.StatusTooManyRequests:
		return "That was too often. Please try again in a minute."
	case told.Status < http.StatusInternalServerError:
		return "Nothing was changed: the request could not be read. Please open the link in your mail again."
	case v.Method == http.MethodGet:
		return "We can't show your booking now. Please try again in a few minutes."
	}
	return "We can't do that now, and whether it was done is not known. Please open the link in your mail again in a few minutes."
}
