package bounce

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/web"
	"go.uber.org/zap"
)

// Path is where reports are taken.
const Path = "/v1/bounces"

// maxBody is how large a report may be: some return the whole mail, and ours are small.
const maxBody = 1 << 20

// Answer is what a report is answered with.
type Answer struct {
	Message string  `json:"message,omitempty"` // key of the message that it is about
	Type    Type    `json:"type"`
	Outcome Outcome `json:"outcome"`
}

// Handler takes reports. Make one with [New].
type Handler struct {
	pool   *pgxpool.Pool
	secret [sha256.Size]byte
	log    *zap.Logger
	count  *prometheus.CounterVec
}

// New returns a handler for [Path] that writes into pool's database. Requests must carry the
// secret, which must not be empty, as a bearer token.
func New(pool *pgxpool.Pool, secret string, log *zap.Logger, registry prometheus.Registerer) *Handler {
	count := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slotwise_bounces_total", Help: "Reports of mails that did not arrive: hard, soft (delayed), or unmatched (about no mail of ours). Repeated ones count once.",
	}, []string{"type"})
	for _, typ := range []string{string(Hard), string(Soft), string(Unmatched)} {
		count.WithLabelValues(typ) // a counter that is not there can't be watched
	}
	registry.MustRegister(count)
	return &Handler{pool: pool, secret: sha256.Sum256([]byte(secret)), log: log, count: count}
}

// ServeHTTP answers 200 to every report that it understands, whatever came of it, and
// otherwise with a problem document.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	report, problem := h.read(w, r)
	if problem != nil {
		problem.Write(w)
		return
	}
	answer, err := h.take(r.Context(), report)
	if err != nil {
		h.log.Warn("report not recorded", zap.Error(err))
		w.Header().Set("Retry-After", "5")
		web.Problem{Type: "/problems/unavailable", Status: http.StatusServiceUnavailable, Detail: "the report can't be recorded now: deliver it again"}.Write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer) //nolint:errcheck // the client has gone; nobody to tell
}

// read reads the report, or says what is wrong with the request. Nothing is read of one that
// may not ask.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) (Report, *web.Problem) {
	switch {
	case r.URL.Path != Path:
		return Report{}, &web.Problem{Type: "/problems/not-found", Status: http.StatusNotFound, Detail: "there is nothing at this path"}
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		return Report{}, &web.Problem{Type: "/problems/method-not-allowed", Status: http.StatusMethodNotAllowed}
	case !h.may(r):
		w.Header().Set("WWW-Authenticate", "Bearer")
		return Report{}, &web.Problem{Type: "/problems/unauthorized", Status: http.StatusUnauthorized, Detail: "BOUNCE_SECRET is wanted as a bearer token"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return Report{}, &web.Problem{Type: "/problems/body-too-large", Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("must have at most %d bytes", maxBody)}
	}
	if err != nil {
		return Report{}, &web.Problem{Type: "/problems/unreadable-body", Status: http.StatusBadRequest, Detail: "the body could not be read to its end"}
	}
	report, err := read(r.Header.Get("Content-Type"), body)
	switch {
	case errors.Is(err, errMediaType):
		return Report{}, &web.Problem{Type: "/problems/unsupported-media-type", Status: http.StatusUnsupportedMediaType, Detail: errMediaType.Error()}
	case err != nil:
		return Report{}, &web.Problem{Type: "/problems/no-report", Status: http.StatusUnprocessableEntity, Detail: err.Error()}
	}
	return report, nil
}

// may compares the token with the secret, in a time that does not depend on either.
func (h *Handler) may(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], h.secret[:]) == 1
}

var errMediaType = errors.New("the Content-Type must be message/rfc822, multipart/report or application/json")

func read(contentType string, body []byte) (Report, error) {
	switch kind, _, _ := mime.ParseMediaType(contentType); kind { // of a broken one the type is enough
	case "message/rfc822", "message/global":
		return ReadMail(body)
	case "multipart/report":
		return ReadBody(contentType, body)
	case "application/json":
		return ReadProvider(body)
	}
	return Report{}, errMediaType
}

// take records a report, counts it and tells of it.
func (h *Handler) take(ctx context.Context, r Report) (Answer, error) {
	key, outcome, err := Record(ctx, h.pool, r)
	if err != nil {
		return Answer{}, err
	}
	log := h.log.With(zap.String("key", key), zap.String("type", string(r.Type)), zap.String("status", r.Status))
	switch outcome {
	case Bounced:
		h.count.WithLabelValues(string(Hard)).Inc()
		log.Warn("mail bounced")
	case Noted:
		h.count.WithLabelValues(string(Soft)).Inc()
		log.Info("mail delayed behind the mail server")
	case Unmatched:
		h.count.WithLabelValues(string(Unmatched)).Inc()
		log.Warn("report about no mail of ours")
	case Unchanged, Ignored:
	}
	return Answer{Message: key, Type: r.Type, Outcome: outcome}, nil
}
