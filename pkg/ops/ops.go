// Package ops is how engineers on call ask and command a running service: NATS micro
// endpoints, which `nats micro ls|info|stats`, `nats req` and the slotwise program use.
//
//	ops.get.<what>             a question; changes nothing
//	ops.do.<operator>.<what>   a command; who may publish it is who may give it
//
// A NATS request carries no sender, so the operator's name is a token of the subject, and the
// server's permissions see to it that nobody uses another's. Each command is recorded in
// notifier.operations: see [Record].
package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/slotwise/slotwise/pkg/config"
	"go.uber.org/zap"
)

const (
	// timeout bounds the work for one request, unless the endpoint says otherwise.
	timeout = 15 * time.Second
	// statsTimeout bounds what an endpoint adds to the statistics; requests wait meanwhile.
	statsTimeout = time.Second
)

// Request is one question or command.
type Request struct {
	Operator string // who commands; empty for a question
	Data     []byte // as it came
}

// Read decodes the request's JSON into to; an empty request leaves it as it is. What is no
// JSON of that form, or has unknown fields, is a [*BadRequestError].
func (r Request) Read(to any) error {
	if len(r.Data) == 0 {
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(string(r.Data)))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(to)
	if err == nil && decoder.More() {
		err = errors.New("there is more behind it")
	}
	if err != nil {
		return &BadRequestError{"the request is not the JSON that this endpoint reads: " + err.Error()}
	}
	return nil
}

// BadRequestError tells the asker what is wrong with the request.
type BadRequestError struct{ Text string }

// Error is the text.
func (e *BadRequestError) Error() string { return e.Text }

// Endpoint is one thing that can be asked or commanded.
type Endpoint struct {
	Name    string // one token, the subject's last
	Command bool   // below ops.do, else below ops.get
	About   string // shown by `nats micro info`
	Timeout time.Duration
	// Answer does the work; what it returns is sent as JSON. Of its errors the asker sees
	// those that are [*BadRequestError]; the others are logged, and the asker is told to look
	// there.
	Answer func(ctx context.Context, r Request) (any, error)
	// Stats is shown by `nats micro stats --json` as the endpoint's data; may be nil.
	Stats func(ctx context.Context) any
}

func (e Endpoint) subject() string {
	if e.Command {
		return "ops.do.*." + e.Name
	}
	return "ops.get." + e.Name
}

// Serve answers requests on nc, whether its server is there yet or not, until stop is called,
// which waits for requests in hand. Several processes of one service share the requests.
func Serve(nc *nats.Conn, service, about string, log *zap.Logger, endpoints ...Endpoint) (stop func(), err error) {
	s, err := micro.AddService(nc, micro.Config{
		Name: service, Description: about, Version: version(),
		Metadata: map[string]string{"version": config.Version}, StatsHandler: stats(endpoints),
	})
	if err != nil {
		return nil, fmt.Errorf("serve ops endpoints: %w", err)
	}
	var inHand sync.RWMutex // requests hold it for reading
	stopped := false
	for _, e := range endpoints {
		handler := micro.HandlerFunc(func(r micro.Request) {
			inHand.RLock()
			defer inHand.RUnlock()
			if !stopped {
				e.serve(r, log)
			}
		})
		err := s.AddEndpoint(e.Name, handler, micro.WithEndpointSubject(e.subject()), micro.WithEndpointMetadata(map[string]string{"about": e.About}))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("serve %s: %w", e.subject(), err), s.Stop())
		}
	}
	return func() {
		s.Stop() //nolint:errcheck // the connection may have gone
		inHand.Lock()
		defer inHand.Unlock()
		stopped = true
	}, nil
}

// stats calls the endpoint's own.
func stats(endpoints []Endpoint) micro.StatsHandler {
	return func(asked *micro.Endpoint) any {
		for _, e := range endpoints {
			if e.Name == asked.Name && e.Stats != nil {
				ctx, cancel := context.WithTimeout(context.Background(), statsTimeout)
				defer cancel()
				return e.Stats(ctx)
			}
		}
		return nil
	}
}

func (e Endpoint) serve(r micro.Request, log *zap.Logger) {
	limit := e.Timeout
	if limit == 0 {
		limit = timeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	log = log.With(zap.String("endpoint", e.Name))
	request := Request{Data: r.Data()}
	if e.Command {
		request.Operator = strings.Split(r.Subject(), ".")[2]
		log = log.With(zap.String("operator", request.Operator))
	}
	answer, err := e.Answer(ctx, request)
	bad, isBad := errors.AsType[*BadRequestError](err)
	switch {
	case isBad:
		err = r.Error("400", bad.Text, nil)
	case err != nil:
		log.Error("request failed", zap.Error(err))
		err = r.Error("500", "failed; the service's log says why", nil)
	default:
		if e.Command {
			log.Info("command done")
		}
		err = r.RespondJSON(answer)
	}
	if err != nil {
		log.Warn("answer not sent", zap.Error(err))
	}
}

var semantic = regexp.MustCompile(`^v?(\d+\.\d+\.\d+)$`)

// version is the program's as NATS micro wants it; builds between releases are 0.0.0.
func version() string {
	if parts := semantic.FindStringSubmatch(config.Version); parts != nil {
		return parts[1]
	}
	return "0.0.0"
}
