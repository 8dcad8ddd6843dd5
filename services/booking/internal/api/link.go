package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/slotwise/slotwise/pkg/link"
	"github.com/slotwise/slotwise/pkg/web"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
	"github.com/slotwise/slotwise/services/booking/internal/page"
)

// Customers act by the links in their mails, /b/<token>: they see, move and cancel their booking
// and nothing else, as JSON or on a page. Every change is the API's own, with the customer as who
// calls; so are its event and its mails.
//
// The token is the whole credential. There is no cookie and nothing else that a browser adds by
// itself, so that another site can't have a customer do anything: it would have to know the token,
// and could then ask without the customer. Origin is not looked at for that reason (and is null
// in our own forms, because of no-referrer). GET changes nothing, whoever fetches links ahead of
// people; a form names the version that it shows, so that a page from yesterday undoes nothing.
//
// A token that is wrong, has expired or belongs to somebody who is not the contact any more gets
// one and the same answer. Paths are logged and counted by their pattern, never as they are.

// Links opens those tokens.
type Links struct {
	Keys    link.Keys   // none: there are no links, and nothing at their paths
	Clients web.Clients // whose wrong tokens are limited
	Refused web.Refused // counts those that are then refused, as [WrongToken]
}

// WrongToken is the reason for which a link's door refuses requests, as [web.NewRefused] takes it.
const WrongToken = "wrong-token"

// Wrong tokens of one client address that get that answer: so many at once, then one more every
// three seconds; any other gets 429. The right ones of a neighbour are not held up.
const (
	wrongBurst = 20
	wrongRate  = 1.0 / 3
)

var errDeadLink = &web.Problem{
	Type: "/problems/link-not-found", Status: http.StatusNotFound,
	Detail: "this link does not work, or not any more; the newest mail about your booking has one that does",
}

// visit is one request by a link.
type visit struct {
	*http.Request
	link.Link
	token string
	html  bool   // the answer is a page
	up    string // from this path to the token's
}

// guest makes h a handler of requests by links. It is given a pointer to a visit whose token is
// right.
func (a *api) guest(up string, h func(*visit) (app.Answer, error)) handler {
	return func(r *http.Request) (app.Answer, error) {
		if a.doors.Links.Keys.None() {
			return app.Answer{}, errNoPage
		}
		v := &visit{Request: r, token: chi.URLParam(r, "token"), html: wantsPage(r), up: up}
		answer, err := a.enterByLink(v, h)
		if err != nil {
			answer = problem(err)
			if v.html {
				answer = a.apology(v, err, answer)
			}
			return app.Answer{}, &answeredError{err, shield(answer)}
		}
		return shield(answer), nil
	}
}

// enterByLink lets in who does not ask too often, and has a token that opens a booking.
func (a *api) enterByLink(v *visit, h func(*visit) (app.Answer, error)) (answer app.Answer, err error) {
	if problem := a.doors.Throttle.Check(v.Request); problem != nil {
		return app.Answer{}, problem
	}
	v.Link, err = a.doors.Links.Keys.Open(v.token, time.Now())
	if err == nil {
		answer, err = h(v)
	}
	if errors.Is(err, booking.ErrNotFound) || errors.Is(err, link.ErrInvalid) || errors.Is(err, link.ErrExpired) {
		err = a.wrong(v.Request)
	}
	return answer, err
}

// wrong is why a token opens nothing, as its bearer is told.
func (a *api) wrong(r *http.Request) error {
	wait, ok := a.wrongTokens.Take(a.doors.Links.Clients.Addr(r), time.Now())
	if ok {
		return errDeadLink
	}
	a.doors.Links.Refused.Count(WrongToken)
	return web.TooMany(wait, "too many links from this address did not work")
}

// answeredError is an error with the answer that tells it.
type answeredError struct {
	error
	answer app.Answer
}

func (e *answeredError) Unwrap() error { return e.error }

// shield is what every answer by a link says to browsers and robots.
func shield(answer app.Answer) app.Answer {
	if answer.Header == nil {
		answer.Header = map[string]string{}
	}
	answer.Header["Referrer-Policy"] = "no-referrer"
	answer.Header["X-Robots-Tag"] = "noindex, nofollow"
	answer.Header["Content-Security-Policy"] = page.Policy
	answer.Header["Vary"] = "Accept"
	return answer
}

// see shows the booking.
func (a *api) see(v *visit) (app.Answer, error) {
	view, err := a.bookings.GetFor(v.Context(), v.Customer, v.Booking)
	if err != nil {
		return app.Answer{}, err
	}
	if v.html {
		return v.page(http.StatusOK, page.Page{Booking: v.shown(view)})
	}
	return encodeGuest(app.Outcome{Booking: view.Booking, Resource: view.Resource})
}

// moveBy and cancelBy change it.
func (a *api) moveBy(v *visit) (app.Answer, error) {
	return a.changeBy(v, func(ctx context.Context, call app.Call, in input) (app.Answer, error) {
		start, err := a.startBy(v, in)
		if err != nil {
			return app.Answer{}, err
		}
		return a.bookings.Move(ctx, call, v.Booking, start)
	})
}

func (a *api) cancelBy(v *visit) (app.Answer, error) {
	return a.changeBy(v, func(ctx context.Context, call app.Call, in input) (app.Answer, error) {
		if in.form == nil {
			if err := decodeNothing(in.body); err != nil {
				return app.Answer{}, err
			}
		}
		return a.bookings.Cancel(ctx, call, v.Booking)
	})
}

// changeBy reads what both changes have in common. A refusal is an error here, because a page
// about it shows how the booking stands.
func (a *api) changeBy(v *visit, do func(context.Context, app.Call, input) (app.Answer, error)) (app.Answer, error) {
	in, err := readInput(v.Request)
	if err != nil {
		return app.Answer{}, err
	}
	match, err := in.match(v.Request)
	if err != nil {
		return app.Answer{}, err
	}
	var came app.Outcome
	call := app.Call{Trace: readTrace(v.Request), Customer: v.Customer, Match: holds(match), Encode: func(o app.Outcome) (app.Answer, error) {
		came = o
		if o.Refusal == nil && !v.html {
			return encodeGuest(o)
		}
		return app.Answer{}, nil // the page comes later
	}}
	answer, err := do(v.Context(), call, in)
	if err = errors.Join(err, came.Refusal); err != nil {
		return app.Answer{}, err
	}
	if v.html { // the page is asked for anew, so that reloading it asks for nothing twice
		return back(v)
	}
	return answer, nil
}

// back sends a browser to the page of the booking. One that opens a page about a refusal again,
// as it was left, asks for a form's path without the form.
func back(v *visit) (app.Answer, error) {
	return app.Answer{Status: http.StatusSeeOther, Header: map[string]string{"Location": v.up + v.token}}, nil
}

// guestJSON is a booking as openapi.yaml shows it to its customer.
type guestJSON struct {
	ID           string    `json:"id"`
	Version      int64     `json:"version"`
	Status       string    `json:"status"`
	Resource     string    `json:"resource"`
	ResourceName string    `json:"resource_name"`
	Start        time.Time `json:"start"`
	End          time.Time `json:"end"`
	Zone         string    `json:"zone"`
	LocalStart   time.Time `json:"local_start"`
	LocalEnd     time.Time `json:"local_end"`
	Seats        int       `json:"seats"`
	Name         string    `json:"name"`
	Note         string    `json:"note"`
}

func encodeGuest(o app.Outcome) (app.Answer, error) {
	b := toJSON(o.Booking, o.Resource)
	return encode(http.StatusOK, b.Version, guestJSON{
		b.ID, b.Version, b.Status, b.Resource, o.Resource.Name, b.Start, b.End, b.Zone, b.LocalStart, b.LocalEnd, b.Seats, b.Name, b.Note,
	})
}

// shown is the view as the page has it.
func (v *visit) shown(view app.View) *page.Booking {
	return &page.Booking{
		Booking: view.Booking, Resource: view.Resource, Zone: location(view.Resource.Zone),
		Over: !time.Now().Before(view.Booking.End), Forms: v.up + v.token,
	}
}

func (v *visit) page(status int, p page.Page) (app.Answer, error) {
	body, err := p.Render()
	if err != nil {
		return app.Answer{}, err
	}
	return app.Answer{Status: status, Header: map[string]string{"Content-Type": "text/html; charset=utf-8"}, Body: body}, nil
}
