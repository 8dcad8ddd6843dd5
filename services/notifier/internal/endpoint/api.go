package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/apikey"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/pkg/ops/message"
	"github.com/slotwise/slotwise/pkg/web"
	"go.uber.org/zap"
)

// timeout bounds a request's work, the wait for a connection to PostgreSQL included.
const timeout = 10 * time.Second

// maxBody is the longest body that is read: a thousand resources fit in.
const maxBody = 128 << 10

// Doors decide who comes in.
type Doors struct {
	Throttle web.Throttle  // how often one client may ask
	Keys     *apikey.Guard // who may ask what, below /v1
}

type api struct {
	store   *Store
	doors   Doors
	log     *zap.Logger
	metrics web.Metrics
}

// answer is what a handler answers when nothing is wrong.
type answer struct {
	status int
	body   any // nil: none
	header map[string]string
}

// call is a request of somebody who may make it.
type call struct {
	*http.Request
	who  apikey.Principal
	body []byte // undecoded
}

// id is the endpoint that the path names.
func (c call) id() string { return chi.URLParam(c.Request, "id") }

// handler answers a call, or fails.
type handler func(c call) (answer, error)

// NewAPI returns the handler of /v1/webhooks and /openapi.yaml.
func NewAPI(store *Store, doors Doors, log *zap.Logger, registry prometheus.Registerer) http.Handler {
	a := &api{store, doors, log, web.NewMetrics(registry)}
	router := chi.NewRouter()
	router.Use(middleware.GetHead)
	for _, r := range a.routes() {
		router.Method(r.method, r.path, a.serve(r.method+" "+r.path, r.handle))
	}
	router.Get("/openapi.yaml", a.open("GET /openapi.yaml", contract))
	router.NotFound(a.open("none", func(w http.ResponseWriter, _ *http.Request) int {
		return refuse(w, &web.Problem{Type: "/problems/not-found", Status: http.StatusNotFound, Detail: "there is nothing at this path"})
	}))
	router.MethodNotAllowed(a.open("none", func(w http.ResponseWriter, r *http.Request) int {
		allow := map[string]string{"Allow": allowed(router, r.URL.Path)}
		return refuse(w, &web.Problem{Type: "/problems/method-not-allowed", Status: http.StatusMethodNotAllowed, Header: allow})
	}))
	return router
}

type route struct {
	method, path string
	handle       handler
}

func (a *api) routes() []route {
	return []route{
		{http.MethodPost, "/v1/webhooks", a.create},
		{http.MethodGet, "/v1/webhooks", a.list},
		{http.MethodGet, "/v1/webhooks/{id}", a.get},
		{http.MethodPatch, "/v1/webhooks/{id}", a.patch},
		{http.MethodDelete, "/v1/webhooks/{id}", a.remove},
		{http.MethodPost, "/v1/webhooks/{id}/rotate", a.rotate},
		{http.MethodPost, "/v1/webhooks/{id}/example", a.example},
		{http.MethodPost, "/v1/webhooks/{id}/recover", a.again},
		{http.MethodGet, "/v1/webhooks/{id}/deliveries", a.deliveries},
		{http.MethodGet, "/v1/webhooks/{id}/deliveries/{key}", a.delivery},
		{http.MethodPost, "/v1/webhooks/{id}/deliveries/{key}/resend", a.resend},
	}
}

// serve makes h a handler of net/http: who asks too often, or has no key for it, stays out.
func (a *api) serve(name string, h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		status := a.answer(w, r.WithContext(ctx), name, h)
		a.metrics.Count(name, status, time.Since(begun))
	}
}

func (a *api) answer(w http.ResponseWriter, r *http.Request, name string, h handler) (status int) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if p := a.doors.Throttle.Check(r); p != nil {
		return refuse(w, p)
	}
	who, p := a.doors.Keys.Check(r, apikey.Webhooks)
	if p != nil {
		return refuse(w, p)
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	body, err := web.ReadJSON(r)
	found := answer{}
	switch {
	case err != nil:
	case !named(r):
		err = ErrNotFound
	default:
		found, err = h(call{r, who, body})
	}
	if err != nil {
		p := a.problem(err)
		if p.Status >= http.StatusInternalServerError && !errors.Is(r.Context().Err(), context.Canceled) {
			a.log.Error("request failed", zap.String("route", name), zap.Int("status", p.Status), zap.Error(err))
		}
		return refuse(w, p)
	}
	for name, value := range found.header {
		header.Set(name, value)
	}
	if found.body == nil {
		w.WriteHeader(found.status)
		return found.status
	}
	header.Set("Content-Type", "application/json")
	w.WriteHeader(found.status)
	json.NewEncoder(w).Encode(found.body) //nolint:errcheck // the client has gone; nobody to tell
	return found.status
}

// named reports whether the path's parameters have the form of ids. What has not names nothing.
func named(r *http.Request) bool {
	for _, name := range []string{"id", "key"} {
		if value := chi.URLParam(r, name); value != "" && id.Check(value) != nil {
			return false
		}
	}
	return true
}

// open makes h a handler of net/http that needs no key and returns the status of its answer.
func (a *api) open(name string, h func(http.ResponseWriter, *http.Request) int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		var status int
		if p := a.doors.Throttle.Check(r); p != nil {
			status = refuse(w, p)
		} else {
			status = h(w, r)
		}
		a.metrics.Count(name, status, time.Since(begun))
	}
}

func refuse(w http.ResponseWriter, p *web.Problem) (status int) {
	p.Write(w)
	return p.Status
}

func allowed(router chi.Routes, path string) string {
	var methods []string
	for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost} {
		if router.Match(chi.NewRouteContext(), method, path) {
			methods = append(methods, method)
		}
	}
	return strings.Join(methods, ", ")
}

// problem is what tells err. What PostgreSQL has refused for a reason of the statement (classes
// 22, 23 and 42) is our fault; what no rule knows is the way there. Their texts stay here.
func (a *api) problem(err error) *web.Problem {
	refused, isRefused := errors.AsType[*web.Problem](err)
	invalid, isInvalid := errors.AsType[*InvalidError](err)
	state, isState := errors.AsType[*StateError](err)
	switch {
	case isRefused:
		return refused
	case isInvalid:
		return &web.Problem{Type: "/problems/invalid-request", Status: http.StatusUnprocessableEntity, Detail: "the request has faults", Errors: invalid.Faults}
	case isState:
		return &web.Problem{Type: "/problems/state-conflict", Status: http.StatusConflict, Detail: state.Text}
	case errors.Is(err, ErrNotFound):
		return &web.Problem{Type: "/problems/webhook-not-found", Status: http.StatusNotFound, Detail: ErrNotFound.Error()}
	case errors.Is(err, ErrChanged):
		return &web.Problem{Type: "/problems/version-mismatch", Status: http.StatusPreconditionFailed, Detail: "the endpoint has changed: read it again"}
	case errors.Is(err, ErrResources):
		return a.doors.Keys.OtherResource()
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && slices.Contains([]string{"22", "23", "42"}, pgErr.Code[:2]) {
		return &web.Problem{Type: "/problems/internal", Status: http.StatusInternalServerError}
	}
	return &web.Problem{
		Type: "/problems/unavailable", Status: http.StatusServiceUnavailable,
		Detail: "the service can't work now; whether the change was made is not known: look before you repeat it", Header: map[string]string{"Retry-After": "2"},
	}
}

// created is an endpoint as it is shown once: with its secret.
type created struct {
	message.Endpoint
	Secret string `json:"secret"`
}

func (a *api) create(c call) (answer, error) {
	settings, err := decodeNew(c.body)
	if err != nil {
		return answer{}, err
	}
	if !c.who.Covers(settings.Resources) {
		return answer{}, ErrResources
	}
	e, secret, err := a.store.Create(c.Context(), settings, c.who.Key)
	return answer{http.StatusCreated, created{e, secret}, map[string]string{"Location": "/v1/webhooks/" + e.ID, "ETag": tag(e)}}, err
}

func (a *api) list(c call) (answer, error) {
	q := readQuery(c.Request, "after", "limit")
	limit := q.limit()
	if err := q.err(); err != nil {
		return answer{}, err
	}
	list, more, err := a.store.List(c.Context(), q.text("after"), limit, false, c.who.Covers)
	page := message.Endpoints{Endpoints: orEmpty(list)}
	if more {
		page.Next = list[len(list)-1].ID
	}
	return answer{status: http.StatusOK, body: page}, err
}

func (a *api) get(c call) (answer, error) {
	e, err := a.store.Get(c.Context(), c.id(), c.who.Covers)
	return answer{http.StatusOK, e, map[string]string{"ETag": tag(e)}}, err
}

func (a *api) patch(c call) (answer, error) {
	change, err := decodeChange(c.body)
	if err != nil {
		return answer{}, err
	}
	match, fault := web.ReadMatch(c.Request)
	if fault != "" {
		return answer{}, invalid([]web.FieldError{{Field: "If-Match", Detail: fault}})
	}
	if match.Given {
		change.Match = func(e message.Endpoint) bool { return match.Holds(strings.Trim(tag(e), `"`)) }
	}
	e, err := a.store.Edit(c.Context(), c.id(), change, c.who.Covers, c.who.Key)
	return answer{http.StatusOK, e, map[string]string{"ETag": tag(e)}}, err
}

func (a *api) remove(c call) (answer, error) {
	_, err := a.store.Delete(c.Context(), c.id(), c.who.Covers, c.who.Key)
	return answer{status: http.StatusNoContent}, err
}

func (a *api) rotate(c call) (answer, error) {
	overlap, err := decodeOverlap(c.body)
	if err != nil {
		return answer{}, err
	}
	name := c.id()
	secret, err := a.store.Rotate(c.Context(), name, overlap, c.who.Covers, c.who.Key)
	return answer{status: http.StatusOK, body: message.NewSecret{Endpoint: name, Secret: secret}}, err
}

// planned names the delivery that a request has planned.
type planned struct {
	Key string `json:"key"`
}

func (a *api) example(c call) (answer, error) {
	if err := decodeNothing(c.body); err != nil {
		return answer{}, err
	}
	key, err := a.store.Example(c.Context(), c.id(), c.who.Covers, c.who.Key)
	return accepted(c.id(), key), err
}

func accepted(name, key string) answer {
	return answer{http.StatusAccepted, planned{key}, map[string]string{"Location": "/v1/webhooks/" + name + "/deliveries/" + key}}
}

func (a *api) again(c call) (answer, error) {
	since, err := decodeSince(c.body)
	if err != nil {
		return answer{}, err
	}
	n, err := a.store.Recover(c.Context(), c.id(), since, c.who.Covers, c.who.Key)
	return answer{status: http.StatusOK, body: map[string]int64{"planned": n}}, err
}

func (a *api) deliveries(c call) (answer, error) {
	q := readQuery(c.Request, "state", "since", "until", "before", "limit")
	limit := q.limit()
	asked := message.DeliveryQuery{
		Endpoint: c.id(), States: q.states(), Since: q.instant("since"), Until: q.instant("until"), Before: q.text("before"),
	}
	if err := q.err(); err != nil {
		return answer{}, err
	}
	list, more, err := a.store.Deliveries(c.Context(), asked, limit, c.who.Covers)
	page := message.Deliveries{Deliveries: orEmpty(list)}
	if more {
		page.Next = list[len(list)-1].Key
	}
	return answer{status: http.StatusOK, body: page}, err
}

func (a *api) delivery(c call) (answer, error) {
	d, err := a.store.Delivery(c.Context(), c.id(), chi.URLParam(c.Request, "key"), c.who.Covers)
	d.Attempts = orEmpty(d.Attempts)
	return answer{status: http.StatusOK, body: d}, err
}

func (a *api) resend(c call) (answer, error) {
	if err := decodeNothing(c.body); err != nil {
		return answer{}, err
	}
	name := c.id()
	key, err := a.store.Resend(c.Context(), name, chi.URLParam(c.Request, "key"), c.who.Covers, c.who.Key)
	return accepted(name, key), err
}

// tag is an endpoint's entity tag: it changes with every change that somebody makes.
func tag(e message.Endpoint) string {
	return fmt.Sprintf(`"%d"`, e.ChangedAt.UnixMicro())
}

// orEmpty is for JSON: a list that is empty is [].
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return slices.Clip(list)
}
