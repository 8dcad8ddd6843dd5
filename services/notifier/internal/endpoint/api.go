package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
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
	seconds *prometheus.HistogramVec
}

// answer is what a handler answers when nothing is wrong.
type answer struct {
	status int
	body   any // nil: none
	header map[string]string
}

// handler answers a request of somebody who may make it, or fails.
type handler func(r *http.Request, who apikey.Principal) (answer, error)

// NewAPI returns the handler of /v1/webhooks and /openapi.yaml.
func NewAPI(store *Store, doors Doors, log *zap.Logger, registry prometheus.Registerer) http.Handler {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "slotwise_http_request_seconds", Help: "Time from a request to its answer.", Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"route", "status"})
	registry.MustRegister(seconds)
	a := &api{store, doors, log, seconds}
	router := chi.NewRouter()
	router.Use(middleware.GetHead)
	for _, r := range a.routes() {
		router.Method(r.method, r.path, a.serve(r.method+" "+r.path, r.handle))
	}
	router.Get("/openapi.yaml", a.contract)
	router.NotFound(a.none(web.Problem{Type: "/problems/not-found", Status: http.StatusNotFound, Detail: "there is nothing at this path"}))
	router.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allowed(router, r.URL.Path))
		a.none(web.Problem{Type: "/problems/method-not-allowed", Status: http.StatusMethodNotAllowed})(w, r)
	})
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
		a.seconds.WithLabelValues(name, strconv.Itoa(status)).Observe(time.Since(begun).Seconds())
	}
}

func (a *api) answer(w http.ResponseWriter, r *http.Request, name string, h handler) (status int) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	refuse := func(p *web.Problem) int {
		p.Write(w)
		return p.Status
	}
	if p := a.doors.Throttle.Check(r); p != nil {
		return refuse(p)
	}
	who, p := a.doors.Keys.Check(r, apikey.Webhooks)
	if p != nil {
		return refuse(p)
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	body, err := web.ReadJSON(r)
	found := answer{}
	switch {
	case err != nil:
	case !named(r):
		err = ErrNotFound
	default:
		found, err = h(r.WithContext(context.WithValue(r.Context(), bodyKey{}, body)), who)
	}
	if err != nil {
		p := a.problem(err)
		if p.Status >= http.StatusInternalServerError && !errors.Is(r.Context().Err(), context.Canceled) {
			a.log.Error("request failed", zap.String("route", name), zap.Int("status", p.Status), zap.Error(err))
		}
		return refuse(p)
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

// bodyKey is where the request's body, undecoded, is in its context.
type bodyKey struct{}

func bodyOf(r *http.Request) []byte {
	body, _ := r.Context().Value(bodyKey{}).([]byte)
	return body
}

// none answers what is at no route.
func (a *api) none(p web.Problem) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if refused := a.doors.Throttle.Check(r); refused != nil {
			refused.Write(w)
			return
		}
		p.Write(w)
	}
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

func (a *api) create(r *http.Request, who apikey.Principal) (answer, error) {
	settings, err := decodeNew(bodyOf(r))
	if err != nil {
		return answer{}, err
	}
	if !who.Covers(settings.Resources) {
		return answer{}, ErrResources
	}
	e, secret, err := a.store.Create(r.Context(), settings, who.Key)
	return answer{http.StatusCreated, created{e, secret}, map[string]string{"Location": "/v1/webhooks/" + e.ID, "ETag": tag(e)}}, err
}

func (a *api) list(r *http.Request, who apikey.Principal) (answer, error) {
	q := readQuery(r, "after", "limit")
	limit := q.limit()
	if err := q.err(); err != nil {
		return answer{}, err
	}
	list, more, err := a.store.List(r.Context(), q.text("after"), limit, false, who.Covers)
	page := message.Endpoints{Endpoints: orEmpty(list)}
	if more {
		page.Next = list[len(list)-1].ID
	}
	return answer{status: http.StatusOK, body: page}, err
}

func (a *api) get(r *http.Request, who apikey.Principal) (answer, error) {
	e, err := a.store.Get(r.Context(), chi.URLParam(r, "id"), who.Covers)
	return answer{http.StatusOK, e, map[string]string{"ETag": tag(e)}}, err
}

func (a *api) patch(r *http.Request, who apikey.Principal) (answer, error) {
	change, err := decodeChange(bodyOf(r))
	if err != nil {
		return answer{}, err
	}
	if wanted := r.Header.Values("If-Match"); len(wanted) > 0 {
		change.Match = func(e message.Endpoint) bool { return matches(wanted, tag(e)) }
	}
	e, err := a.store.Edit(r.Context(), chi.URLParam(r, "id"), change, who.Covers, who.Key)
	return answer{http.StatusOK, e, map[string]string{"ETag": tag(e)}}, err
}

func (a *api) remove(r *http.Request, who apikey.Principal) (answer, error) {
	_, err := a.store.Delete(r.Context(), chi.URLParam(r, "id"), who.Covers, who.Key)
	return answer{status: http.StatusNoContent}, err
}

func (a *api) rotate(r *http.Request, who apikey.Principal) (answer, error) {
	overlap, err := decodeOverlap(bodyOf(r))
	if err != nil {
		return answer{}, err
	}
	name := chi.URLParam(r, "id")
	secret, err := a.store.Rotate(r.Context(), name, overlap, who.Covers, who.Key)
	return answer{status: http.StatusOK, body: message.NewSecret{Endpoint: name, Secret: secret}}, err
}

// planned names the delivery that a request has planned.
type planned struct {
	Key string `json:"key"`
}

func (a *api) example(r *http.Request, who apikey.Principal) (answer, error) {
	if err := decodeNothing(bodyOf(r)); err != nil {
		return answer{}, err
	}
	key, err := a.store.Example(r.Context(), chi.URLParam(r, "id"), who.Covers, who.Key)
	return accepted(chi.URLParam(r, "id"), key), err
}

func accepted(name, key string) answer {
	return answer{http.StatusAccepted, planned{key}, map[string]string{"Location": "/v1/webhooks/" + name + "/deliveries/" + key}}
}

func (a *api) again(r *http.Request, who apikey.Principal) (answer, error) {
	since, err := decodeSince(bodyOf(r))
	if err != nil {
		return answer{}, err
	}
	n, err := a.store.Recover(r.Context(), chi.URLParam(r, "id"), since, who.Covers, who.Key)
	return answer{status: http.StatusOK, body: map[string]int64{"planned": n}}, err
}

func (a *api) deliveries(r *http.Request, who apikey.Principal) (answer, error) {
	q := readQuery(r, "state", "since", "until", "before", "limit")
	limit := q.limit()
	asked := message.DeliveryQuery{
		Endpoint: chi.URLParam(r, "id"), States: q.states(), Since: q.instant("since"), Until: q.instant("until"), Before: q.text("before"),
	}
	if err := q.err(); err != nil {
		return answer{}, err
	}
	list, more, err := a.store.Deliveries(r.Context(), asked, limit, who.Covers)
	page := message.Deliveries{Deliveries: orEmpty(list)}
	if more {
		page.Next = list[len(list)-1].Key
	}
	return answer{status: http.StatusOK, body: page}, err
}

func (a *api) delivery(r *http.Request, who apikey.Principal) (answer, error) {
	d, err := a.store.Delivery(r.Context(), chi.URLParam(r, "id"), chi.URLParam(r, "key"), who.Covers)
	d.Attempts = orEmpty(d.Attempts)
	return answer{status: http.StatusOK, body: d}, err
}

func (a *api) resend(r *http.Request, who apikey.Principal) (answer, error) {
	if err := decodeNothing(bodyOf(r)); err != nil {
		return answer{}, err
	}
	name := chi.URLParam(r, "id")
	key, err := a.store.Resend(r.Context(), name, chi.URLParam(r, "key"), who.Covers, who.Key)
	return accepted(name, key), err
}

// tag is an endpoint's entity tag: it changes with every change that somebody makes.
func tag(e message.Endpoint) string {
	return fmt.Sprintf(`"%d"`, e.ChangedAt.UnixMicro())
}

// matches is the strong comparison of If-Match (RFC 9110 §13.1.1).
func matches(wanted []string, have string) bool {
	for _, list := range wanted {
		for one := range strings.SplitSeq(list, ",") {
			if one = strings.TrimSpace(one); one == "*" || one == have {
				return true
			}
		}
	}
	return false
}

// orEmpty is for JSON: a list that is empty is [].
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return slices.Clip(list)
}
