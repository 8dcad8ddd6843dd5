// Package api is the HTTP API of the booking service. openapi.yaml, beside this file and
// served at /openapi.yaml, is its contract; a test compares the two.
//
// Below /v1 every request needs an API key. A key for some resources may book these only; a
// booking of another resource is none to it: the answer is the one for an id that nobody has.
//
// Every change is answered inside its transaction, so that the answer can be kept under the
// request's Idempotency-Key. Every fault is a problem document (RFC 9457) whose type is
// stable and which names the fields that are wrong. What PostgreSQL can't do now is a 503
// with Retry-After. A fault of our own is logged here and only here, without any person in it.
package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/apikey"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/pkg/web"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
	"go.uber.org/zap"
)

// timeout bounds a request's work, the wait for a connection to PostgreSQL included.
const timeout = 10 * time.Second

// Doors decide who comes in.
type Doors struct {
	Throttle web.Throttle  // how often one client may ask
	Keys     *apikey.Guard // who may ask what, below /v1
	Links    Links         // for customers, below /b
}

type api struct {
	bookings    app.Bookings
	doors       Doors
	wrongTokens *web.Limiter
	log         *zap.Logger
	metrics     web.Metrics
}

// handler answers a request, or fails. Refusals of the domain are answers.
type handler func(*http.Request) (app.Answer, error)

type route struct {
	method, path string
	scope        apikey.Scope // of the key that it needs, or open, or byLink
	handle       handler
}

// maxBody is the longest body that is read: 64 KiB.
const maxBody = 64 << 10

// open is the scope of what needs no key, byLink of what needs a token.
const (
	open   apikey.Scope = ""
	byLink apikey.Scope = "link"
)

// New returns the API's handler.
func New(bookings app.Bookings, doors Doors, log *zap.Logger, registry prometheus.Registerer) http.Handler {
	a := &api{bookings, doors, web.NewLimiter(wrongRate, wrongBurst), log, web.NewMetrics(registry)}
	router := chi.NewRouter()
	router.Use(middleware.GetHead)
	for _, r := range a.routes() {
		router.Method(r.method, r.path, a.serve(r.method+" "+r.path, a.enter(r.scope, r.handle)))
	}
	router.NotFound(a.serve("none", a.enter(open, func(*http.Request) (app.Answer, error) { return app.Answer{}, errNoPage })))
	router.MethodNotAllowed(a.serve("none", a.enter(open, func(r *http.Request) (app.Answer, error) {
		return app.Answer{}, &web.Problem{Type: "/problems/method-not-allowed", Status: http.StatusMethodNotAllowed, Header: map[string]string{"Allow": allowed(router, r.URL.Path)}}
	})))
	return router
}

func (a *api) routes() []route {
	return []route{
		{http.MethodPost, "/v1/bookings", apikey.BookingsWrite, a.book},
		{http.MethodGet, "/v1/bookings/{id}", apikey.BookingsRead, a.get},
		{http.MethodPatch, "/v1/bookings/{id}", apikey.BookingsWrite, a.edit},
		{http.MethodPost, "/v1/bookings/{id}/reschedule", apikey.BookingsWrite, a.reschedule},
		{http.MethodPost, "/v1/bookings/{id}/cancel", apikey.BookingsWrite, a.cancel},
		{http.MethodGet, "/b/{token}", byLink, a.guest("", a.see)},
		{http.MethodPost, "/b/{token}/move", byLink, a.guest("../", a.moveBy)},
		{http.MethodPost, "/b/{token}/cancel", byLink, a.guest("../", a.cancelBy)},
		{http.MethodGet, "/b/{token}/move", byLink, a.guest("../", back)},
		{http.MethodGet, "/b/{token}/cancel", byLink, a.guest("../", back)},
		{http.MethodGet, "/openapi.yaml", open, contract},
	}
}

// serve makes h a handler of net/http: bounded in time and size, counted, answered.
func (a *api) serve(route string, h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		answer, err := h(r)
		if err != nil {
			answer = problem(err)
		}
		if err != nil && answer.Status >= http.StatusInternalServerError && !errors.Is(r.Context().Err(), context.Canceled) {
			a.log.Error("request failed", zap.String("route", route), zap.Int("status", answer.Status), zap.Error(err))
		}
		write(w, answer)
		a.metrics.Count(route, answer.Status, time.Since(begun))
	}
}

// enter lets in who does not ask too often, and has a key for it.
func (a *api) enter(scope apikey.Scope, h handler) handler {
	return func(r *http.Request) (app.Answer, error) {
		if scope == byLink {
			return h(r)
		}
		if problem := a.doors.Throttle.Check(r); problem != nil {
			return refuse(problem), nil
		}
		if scope == open {
			return h(r)
		}
		principal, problem := a.doors.Keys.Check(r, scope)
		if problem != nil {
			return refuse(problem), nil
		}
		return h(r.WithContext(apikey.With(r.Context(), principal)))
	}
}

func write(w http.ResponseWriter, answer app.Answer) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	for name, value := range answer.Header {
		header.Set(name, value)
	}
	header.Set("Content-Length", strconv.Itoa(len(answer.Body)))
	w.WriteHeader(answer.Status)
	w.Write(answer.Body) //nolint:errcheck // the client has gone; nobody to tell
}

func allowed(router chi.Routes, path string) string {
	var methods []string
	for _, method := range []string{http.MethodGet, http.MethodPatch, http.MethodPost} {
		if router.Match(chi.NewRouteContext(), method, path) {
			methods = append(methods, method)
		}
	}
	return strings.Join(methods, ", ")
}

func (a *api) book(r *http.Request) (app.Answer, error) {
	body, err := web.ReadJSON(r)
	if err != nil {
		return app.Answer{}, err
	}
	request, err := decodeRequest(body)
	if err != nil {
		return app.Answer{}, err
	}
	if !apikey.From(r.Context()).Sees(request.Resource) {
		return refuse(a.doors.Keys.OtherResource()), nil
	}
	key, err := readKey(r, body)
	if err != nil {
		return app.Answer{}, err
	}
	key.Nobodys = true // the resource is the caller's, and the request names it
	call := app.Call{Key: key, Trace: readTrace(r), Encode: encodeBooked}
	return a.bookings.Book(r.Context(), call, request)
}

func (a *api) get(r *http.Request) (app.Answer, error) {
	name, err := bookingID(r)
	if err != nil {
		return app.Answer{}, err
	}
	view, err := a.bookings.Get(r.Context(), name)
	if err != nil {
		return app.Answer{}, err
	}
	if !apikey.From(r.Context()).Sees(view.Booking.Resource) {
		return app.Answer{}, booking.ErrNotFound
	}
	return encodeView(view)
}

func (a *api) edit(r *http.Request) (app.Answer, error) {
	return a.change(r, func(ctx context.Context, call app.Call, name string, body []byte) (app.Answer, error) {
		edit, err := decodeEdit(body)
		if err != nil {
			return app.Answer{}, err
		}
		return a.bookings.Edit(ctx, call, name, edit)
	})
}

func (a *api) reschedule(r *http.Request) (app.Answer, error) {
	return a.change(r, func(ctx context.Context, call app.Call, name string, body []byte) (app.Answer, error) {
		start, err := decodeStart(body)
		if err != nil {
			return app.Answer{}, err
		}
		return a.bookings.Move(ctx, call, name, start)
	})
}

func (a *api) cancel(r *http.Request) (app.Answer, error) {
	return a.change(r, func(ctx context.Context, call app.Call, name string, body []byte) (app.Answer, error) {
		if err := decodeNothing(body); err != nil {
			return app.Answer{}, err
		}
		return a.bookings.Cancel(ctx, call, name)
	})
}

// change reads what every change of a booking has in common.
func (a *api) change(r *http.Request, do func(ctx context.Context, call app.Call, name string, body []byte) (app.Answer, error)) (app.Answer, error) {
	name, err := bookingID(r)
	if err != nil {
		return app.Answer{}, err
	}
	body, err := web.ReadJSON(r)
	if err != nil {
		return app.Answer{}, err
	}
	match, err := readMatch(r)
	if err != nil {
		return app.Answer{}, err
	}
	key, err := readKey(r, body)
	if err != nil {
		return app.Answer{}, err
	}
	call := app.Call{Key: key, Trace: readTrace(r), Sees: apikey.From(r.Context()).Sees, Match: holds(match), Encode: encodeChanged}
	return do(r.Context(), call, name, body)
}

// bookingID returns the path's booking. What has not the form of an id names no booking.
func bookingID(r *http.Request) (string, error) {
	name := chi.URLParam(r, "id")
	if !id.IsBooking(name) {
		return "", booking.ErrNotFound
	}
	return name, nil
}
