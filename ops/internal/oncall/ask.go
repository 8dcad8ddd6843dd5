package oncall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/pkg/id"
	"go.uber.org/zap"
)

// patience is how long an answer may take: longer than an endpoint may work for it.
const patience = 20 * time.Second

// settings reads whose name commands carry, and how to reach NATS.
func settings(getenv func(string) string) (operator string, nats bus.Settings, env *config.Reader) {
	env = config.New("slotwise", getenv)
	operator = env.String("SLOTWISE_OPERATOR", "dev", "the operator's NATS user: commands are recorded under this name")
	if id.Check(operator) != nil {
		env.Mistake("SLOTWISE_OPERATOR", "must be one word of letters, digits, hyphens and underscores")
	}
	return operator, bus.Read(env, operator), env
}

// ask asks one endpoint and decodes its answer; with --json it writes the
// answer as it came. A request that is a string is sent as it is, any other as JSON.
func (c *call) ask(ctx context.Context, subject string, request, answer any) error {
	data, ok := request.(string)
	if !ok {
		text, err := json.Marshal(request)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		data = string(text)
	}
	body, err := c.request(ctx, subject, data)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("%s answers what this program does not understand; is one of them older than the other? %w", subject, err)
	}
	return nil
}

// do is ask for a command, under the operator's name.
func (c *call) do(ctx context.Context, operation string, request, answer any) error {
	operator, _, _ := settings(c.getenv)
	return c.ask(ctx, "ops.do."+operator+"."+operation, request, answer)
}

func (c *call) request(ctx context.Context, subject, data string) ([]byte, error) {
	operator, where, env := settings(c.getenv)
	if err := env.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.patience, fmt.Errorf("no answer within %s", c.patience))
	defer cancel()
	// A denied permission shows in the error handler only: the request just gets no answer.
	ctx, deny := context.WithCancelCause(ctx)
	defer deny(nil)
	nc, err := bus.Dial(where, zap.NewNop(), nats.NoReconnect(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			deny(fmt.Errorf("NATS does not allow the user of NATS_NKEY_FILE to do that as %q (SLOTWISE_OPERATOR)", operator))
		}
	}))
	if err != nil {
		return nil, fmt.Errorf("%w (NATS_URL, NATS_NKEY_FILE)", err)
	}
	defer nc.Close()
	m, err := nc.RequestWithContext(ctx, subject, []byte(data))
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("no %s answers: does one run, and does it reach NATS? What psql can do instead is in docs/operations.md", c.service)
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("ask %s: %w", subject, context.Cause(ctx))
	case err != nil:
		return nil, fmt.Errorf("ask %s: %w", subject, err)
	}
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		return nil, c.answered(code, m.Header.Get(micro.ErrorHeader))
	}
	return m.Data, nil
}

// answered is the error that an endpoint answered with.
func (c *call) answered(code, text string) error {
	if code == "400" {
		return fmt.Errorf("%w: %s", ErrUsage, text)
	}
	return fmt.Errorf("the %s could not answer (%s): %s; is PostgreSQL there?", c.service, code, text)
}

// write writes an answer as JSON.
func (c *call) write(answer any) error {
	encoder := json.NewEncoder(c.out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(answer); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	return nil
}
