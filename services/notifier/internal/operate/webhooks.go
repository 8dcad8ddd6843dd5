package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/ops"
	"github.com/slotwise/slotwise/pkg/ops/message"
	"github.com/slotwise/slotwise/services/notifier/internal/endpoint"
	"github.com/slotwise/slotwise/services/notifier/internal/webhook"
)

func (d *Desk) endpoints(ctx context.Context, r ops.Request) (any, error) {
	var q message.EndpointQuery
	if err := r.Read(&q); err != nil {
		return nil, err
	}
	answer := message.Endpoints{Endpoints: []message.Endpoint{}}
	if q.ID != "" {
		e, err := d.webhooks.Find(ctx, q.ID)
		if errors.Is(err, endpoint.ErrNotFound) {
			return answer, nil
		}
		answer.Endpoints = append(answer.Endpoints, e)
		return answer, err
	}
	size, err := page(q.Limit)
	if err != nil {
		return nil, err
	}
	list, more, err := d.webhooks.List(ctx, q.After, size, q.Deleted, endpoint.Everybody)
	if err != nil {
		return nil, err
	}
	answer.Endpoints = append(answer.Endpoints, list...)
	if keep := fitting(answer.Endpoints); keep < len(answer.Endpoints) || more {
		answer.Endpoints = answer.Endpoints[:keep]
		answer.Next = answer.Endpoints[keep-1].ID
	}
	return answer, nil
}

// page is how many things a list holds that was asked for limit of them.
func page(limit int) (int, error) {
	if limit < 0 {
		return 0, &ops.BadRequestError{Text: "the limit is less than 1"}
	}
	return min(cmp.Or(limit, pageSize), maxPage), nil
}

func (d *Desk) deliveries(ctx context.Context, r ops.Request) (any, error) {
	var q message.DeliveryQuery
	if err := r.Read(&q); err != nil {
		return nil, err
	}
	answer := message.Deliveries{Deliveries: []message.Delivery{}}
	if q.Key != "" {
		one, err := d.webhooks.Delivery(ctx, q.Endpoint, q.Key, endpoint.Everybody)
		if errors.Is(err, endpoint.ErrNotFound) {
			return answer, nil
		}
		answer.Deliveries = append(answer.Deliveries, one)
		return answer, err
	}
	size, err := page(q.Limit)
	if err != nil {
		return nil, err
	}
	for _, state := range q.States {
		if !slices.Contains(endpoint.States, state) {
			return nil, &ops.BadRequestError{Text: "unknown states: " + state}
		}
	}
	list, more, err := d.webhooks.Deliveries(ctx, q, size, endpoint.Everybody)
	if err != nil {
		return nil, refused(err)
	}
	answer.Deliveries = append(answer.Deliveries, list...)
	if keep := fitting(answer.Deliveries); keep < len(answer.Deliveries) || more {
		answer.Deliveries = answer.Deliveries[:keep]
		answer.Next = answer.Deliveries[keep-1].Key
	}
	return answer, nil
}

// refused makes of what an operator asked wrongly an error that they see.
func refused(err error) error {
	invalid, isInvalid := errors.AsType[*endpoint.InvalidError](err)
	switch {
	case isInvalid:
		return &ops.BadRequestError{Text: hinted(invalid)}
	case errors.Is(err, endpoint.ErrNotFound):
		return &ops.BadRequestError{Text: endpoint.ErrNotFound.Error()}
	}
	return asked(err)
}

func (d *Desk) createEndpoint(ctx context.Context, r ops.Request) (any, error) {
	var s message.EndpointSettings
	if err := r.Read(&s); err != nil {
		return nil, err
	}
	settings := endpoint.Settings{
		URL: s.URL, Description: s.Description, Owner: s.Owner, EventTypes: s.EventTypes, Resources: s.Resources,
		Concurrency: endpoint.DefaultConcurrency, Rate: s.Rate,
	}
	if s.Concurrency != nil {
		settings.Concurrency = *s.Concurrency
	}
	e, secret, err := d.webhooks.Create(ctx, settings, r.Operator)
	if err != nil {
		return nil, refused(err)
	}
	return message.NewSecret{Endpoint: e.ID, Secret: secret}, nil
}

// order does one thing to one endpoint. What can't be done as things stand is an answer.
func (d *Desk) order(operation string) func(context.Context, ops.Request) (any, error) {
	return func(ctx context.Context, r ops.Request) (any, error) {
		var o message.EndpointOrder
		if err := r.Read(&o); err != nil {
			return nil, err
		}
		answer := message.EndpointChange{Operation: operation, Changed: true}
		err := d.carryOut(ctx, operation, o, r.Operator, &answer)
		state, isState := errors.AsType[*endpoint.StateError](err)
		switch {
		case isState:
			return message.EndpointChange{Operation: operation, Problem: state.Text}, nil
		case errors.Is(err, endpoint.ErrNotFound):
			return message.EndpointChange{Operation: operation, Missing: true}, nil
		case err != nil:
			return nil, asked(err)
		}
		return answer, nil
	}
}

func (d *Desk) carryOut(ctx context.Context, operation string, o message.EndpointOrder, operator string, answer *message.EndpointChange) (err error) {
	w, all := d.webhooks, endpoint.Everybody
	if o.DryRun && operation != "delete" {
		return &ops.BadRequestError{Text: operation + " has no dry run"}
	}
	switch operation {
	case "disable":
		answer.Messages, answer.Changed, err = w.Disable(ctx, o.Endpoint, cmp.Or(o.Reason, "by "+operator), operator)
	case "enable":
		answer.Messages, answer.Changed, err = w.Enable(ctx, o.Endpoint, operator)
	case "delete":
		if o.DryRun {
			answer.Changed, answer.DryRun = false, true
			answer.Messages, err = d.waiting(ctx, o.Endpoint)
			return err
		}
		answer.Messages, err = w.Delete(ctx, o.Endpoint, all, operator)
	case "rotate":
		overlap := endpoint.DefaultOverlap
		if o.Overlap != nil {
			overlap = time.Duration(*o.Overlap) * time.Second
		}
		answer.Secret, err = w.Rotate(ctx, o.Endpoint, overlap, all, operator)
	case "example":
		answer.Key, err = w.Example(ctx, o.Endpoint, all, operator)
		answer.Messages = 1
	case "resend":
		answer.Key, err = w.Resend(ctx, o.Endpoint, o.Key, all, operator)
		answer.Messages = 1
	case "recover":
		if o.Since == nil {
			return &ops.BadRequestError{Text: "since is missing"}
		}
		answer.Messages, err = w.Recover(ctx, o.Endpoint, *o.Since, all, operator)
	default:
		return fmt.Errorf("no operation %s", operation)
	}
	return err
}

// waiting counts what [endpoint.Store.Delete] would skip in the end.
func (d *Desk) waiting(ctx context.Context, name string) (n int64, err error) {
	e, err := d.webhooks.Find(ctx, name)
	switch {
	case err != nil:
		return 0, err //nolint:wrapcheck // it says enough
	case e.DeletedAt != nil:
		return 0, endpoint.ErrNotFound
	}
	err = d.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `
			select count(*) from notifier.send_log
			where channel = 'webhook' and endpoint = $1 and state in ('planned', 'unknown', 'held')`, name).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("count what waits for an endpoint: %w", err)
	}
	return n, nil
}

// hints are the settings of the notifier that would let a URL be, by what is wrong with it. API
// keys' owners do not read them: they can't change settings.
var hints = map[string]string{
	strings.TrimPrefix(webhook.NotPublic, "it "): "WEBHOOK_ALLOW of the notifier names networks that are allowed all the same",
	strings.TrimPrefix(webhook.NotHTTPS, "it "):  "WEBHOOK_ALLOW_HTTP=yes of the notifier allows http://",
}

// hinted is an error's text, with the setting that would allow what is wrong.
func hinted(e *endpoint.InvalidError) string {
	for _, f := range e.Faults {
		if hint := hints[f.Detail]; hint != "" && f.Field == "url" {
			return e.Error() + " (" + hint + ")"
		}
	}
	return e.Error()
}
