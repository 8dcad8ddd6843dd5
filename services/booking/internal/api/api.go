// Package api is the HTTP API of the booking service. openapi.yaml, beside this file and
// served at /openapi.yaml, is its contract; a test compares the two.
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
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/pkg/web"
	"github.com/slotwise/slotwise/services/booking/internal/app"
	"github.com/slotwise/slotwise/services/booking/internal/booking"
	"go.uber.org/zap"
)

// timeout bounds a request's work, the wait for a connection to PostgreSQL included.
const timeout = 10 * time.Second

type api struct {
	bookings    app.Bookings
	links       Links
	wrongTokens *web.Limiter
	log         *zap.Logger
	metrics     metrics
}

// handler answers a request, or fails. Refusals of the domain are answers.
type handler func(*http.Request) (app.Answer, error)

type route struct {
	method, path string
	handle       handler
}

// New returns the API's handler.
func New(bookings app.Bookings, links Links, log *zap.Logger, registry prometheus.Registerer) http.Handler {
	a := &api{bookings, links, web.NewLimiter(wrongRate, wrongBurst), log, newMetrics(registry)}
	router := chi.NewRouter()
	router.Use(middleware.GetHead)
	for _, r := range a.routes() {
		router.Method(r.method, r.path, a.serve(r.method+" "+r.path, r.handle))
	}
	router.NotFound(a.serve("none", func(*http.Request) (app.Answer, error) { return app.Answer{}, errNoPage }))
	router.MethodNotAllowed(a.serve("none", func(r *http.Request) (app.Answer, error) {
		return app.Answer{}, &requestError{status: http.StatusMethodNotAllowed, slug: "method-not-allowed", header: [2]string{"Allow", allowed(router, r.URL.Path)}}
	}))
	return router
}

func (a *api) routes() []route {
	return []route{
		{http.MethodPost, "/v1/bookings", a.book},
		{http.MethodGet, "/v1/bookings/{id}", a.get},
		{http.MethodPatch, "/v1/bookings/{id}", a.edit},
		{http.MethodPost, "/v1/bookings/{id}/reschedule", a.reschedule},
		{http.MethodPost, "/v1/bookings/{id}/cancel", a.cancel},
		{http.MethodGet, "/b/{token}", a.guest("", a.see)},
		{http.MethodPost, "/b/{token}/move", a.guest("../", a.moveBy)},
		{http.MethodPost, "/b/{token}/cancel", a.guest("../", a.cancelBy)},
		{http.MethodGet, "/openapi.yaml", contract},
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
		if answer.Status >= http.StatusInternalServerError && !errors.Is(r.Context().Err(), context.Canceled) {
			a.log.Error("request failed", zap.String("route", route), zap.Int("status", answer.Status), zap.Error(err))
		}
		write(w, answer)
		a.metrics.count(route, answer.Status, time.Since(begun))
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
	body, err := readBody(r)
	if err != nil {
		return app.Answer{}, err
	}
	request, err := decodeRequest(body)
	if err != nil {
		return app.Answer{}, err
	}
	key, err := readKey(r, body)
	if err != nil {
		return app.Answer{}, err
	}
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
	body, err := readBody(r)
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
	return do(r.Context(), app.Call{Key: key, Trace: readTrace(r), Match: match.holds, Encode: encodeChanged}, name, body)
}

// bookingID returns the path's booking. What has not the form of an id names no booking.
func bookingID(r *http.Request) (string, error) {
	name := chi.URLParam(r, "id")
	if !id.IsBooking(name) {
		return "", booking.ErrNotFound
	}
	return name, nil
}
