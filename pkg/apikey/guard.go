package apikey

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/slotwise/slotwise/pkg/web"
	"go.uber.org/zap"
)

// Wrong keys of one client address that are answered with 401: so many at once, then one more
// every three seconds.
const (
	wrongBurst = 20
	wrongRate  = 1.0 / 3
)

// lookupTime bounds the question for a key, the wait for a connection included.
const lookupTime = 5 * time.Second

// Reasons are those for which a [Guard] refuses requests, as [web.NewRefused] takes them.
var Reasons = []string{"key-missing", "key-malformed", "key-unknown", "key-revoked", "key-expired", "key-rate", "scope", "resource"}

// Guard lets requests through that come with a key that may make them. Make one with
// [NewGuard]; its [Guard.Run] notes when keys were used.
type Guard struct {
	keys    Table
	clients web.Clients
	refused web.Refused
	log     *zap.Logger
	wrong   *web.Limiter
	used    *used
}

// NewGuard returns a guard that looks keys up in keys, limits wrong ones by the address that
// clients tells, and counts in refused, which was made with [Reasons].
func NewGuard(keys Table, clients web.Clients, refused web.Refused, log *zap.Logger) *Guard {
	return &Guard{keys, clients, refused, log, web.NewLimiter(wrongRate, wrongBurst), newUsed()}
}

// Check returns who asks, if that key may make requests of the scope, or the problem that the
// request is answered with. What PostgreSQL can't tell now is logged here and is 503 with
// Retry-After.
func (g *Guard) Check(r *http.Request, scope Scope) (Principal, *web.Problem) {
	text, sent := bearer(r)
	if !sent {
		g.refused.Count("key-missing")
		return Principal{}, challenge("key-required", "an API key is wanted: Authorization: Bearer slw_…", "")
	}
	hash, err := Parse(text)
	if err != nil {
		return Principal{}, g.wrongKey(r, "key-malformed", "the API key has a typing fault, or is none")
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookupTime)
	defer cancel()
	key, known, err := g.keys.lookup(ctx, hash)
	if err == nil && known && key.stale { // whatever the answer will be
		g.used.add(key.Key)
	}
	switch {
	case err != nil:
		if !errors.Is(r.Context().Err(), context.Canceled) {
			g.log.Error("an API key can't be checked", zap.Error(err))
		}
		return Principal{}, away()
	case !known:
		return Principal{}, g.wrongKey(r, "key-unknown", "the API key is not known")
	case key.revoked:
		return Principal{}, g.endedKey(r, key.Key, "key-revoked", "the API key was revoked")
	case key.expired:
		return Principal{}, g.endedKey(r, key.Key, "key-expired", "the API key has expired")
	case !key.May(scope):
		g.refused.Count("scope")
		return Principal{}, forbidden(scope)
	}
	return key.Principal, nil
}

// OtherResource is the answer to a request that names a resource which is not one of the
// key's, whether there is such a resource or not.
func (g *Guard) OtherResource() *web.Problem {
	g.refused.Count("resource")
	return &web.Problem{
		Type: "/problems/resource-forbidden", Status: http.StatusForbidden,
		Detail: "the API key is for other resources",
	}
}

// wrongKey is 401 as long as the client has sent few wrong keys, and then 429.
func (g *Guard) wrongKey(r *http.Request, reason, detail string) *web.Problem {
	if wait, ok := g.wrong.Take(g.clients.Addr(r), time.Now()); !ok {
		g.refused.Count("key-rate")
		return web.TooMany(wait, "too many wrong API keys from this address: "+detail)
	}
	g.refused.Count(reason)
	return challenge("key-invalid", detail, `, error="invalid_token"`)
}

// endedKey is [Guard.wrongKey] of a key that was right once. Whose it was is logged, as often as
// the client is told: who goes on asking with it fills no log.
func (g *Guard) endedKey(r *http.Request, id, reason, detail string) *web.Problem {
	problem := g.wrongKey(r, reason, detail)
	if problem.Status == http.StatusUnauthorized {
		g.log.Info("request refused", zap.String("api_key", id), zap.String("reason", reason))
	}
	return problem
}

// bearer returns the request's token, if it has one. It is only taken from the Authorization
// header: a URL ends up in logs and Referers.
func bearer(r *http.Request) (token string, sent bool) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	if len(values) > 1 {
		return "", true // which of them? none
	}
	return strings.TrimSpace(token), true
}

// challenge is 401 (RFC 6750 §3). A request without a key gets no error code.
func challenge(slug, detail, parameters string) *web.Problem {
	return &web.Problem{
		Type: "/problems/" + slug, Status: http.StatusUnauthorized, Detail: detail,
		Header: map[string]string{"WWW-Authenticate": `Bearer realm="slotwise"` + parameters},
	}
}

func forbidden(scope Scope) *web.Problem {
	return &web.Problem{
		Type: "/problems/scope-missing", Status: http.StatusForbidden, Detail: "the API key lacks the scope " + string(scope),
		Header: map[string]string{"WWW-Authenticate": `Bearer realm="slotwise", error="insufficient_scope", scope="` + string(scope) + `"`},
	}
}

func away() *web.Problem {
	return &web.Problem{
		Type: "/problems/unavailable", Status: http.StatusServiceUnavailable, Detail: "the service can't work now: nothing was done",
		Header: map[string]string{"Retry-After": "2"},
	}
}
