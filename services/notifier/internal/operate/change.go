package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/ops"
	"github.com/slotwise/slotwise/pkg/ops/message"
	"github.com/slotwise/slotwise/pkg/pgdb"
)

// shownKeys is how many keys the answer to a change names.
const shownKeys = 1000

// errDry rolls a dry run back.
var errDry = errors.New("dry run")

// changes are the statements behind the commands on messages: $1 filter, $2 operator.
var changes = map[string]string{
	"release": `select notifier.release($1, $2)`,
	"retry":   `select notifier.retry($1, $2)`,
	"discard": `select notifier.discard($1, $2)`,
	"resend":  `select notifier.resend($1, $2)`,
}

func (d *Desk) change(operation string) func(context.Context, ops.Request) (any, error) {
	return func(ctx context.Context, r ops.Request) (any, error) {
		var order message.Order
		if err := r.Read(&order); err != nil {
			return nil, err
		}
		answer := message.Change{Operation: operation, DryRun: order.DryRun}
		err := pgdb.InTx(ctx, d.pool, func(ctx context.Context, tx pgx.Tx) error {
			keys, err := all[string](ctx, tx, changes[operation], asText(order.Filter), r.Operator)
			if err != nil {
				return fmt.Errorf("%s messages: %w", operation, err)
			}
			answer.Changed, answer.Keys = len(keys), keys[:min(len(keys), shownKeys)]
			if order.DryRun {
				return errDry
			}
			return nil
		})
		switch {
		case errors.Is(err, errDry):
			err = nil
		case err == nil:
			d.wake()
		}
		return answer, asked(err)
	}
}

// turns are the statements behind the commands on switches: $1 switch, $2 operator.
var turns = map[string]string{
	"pause":  `select notifier.pause($1, $2)`,
	"resume": `select notifier.resume($1, $2)`,
}

// turn reads the switch as a plain word or as a [message.SwitchOrder]; empty means mail.
func (d *Desk) turn(operation string) func(context.Context, ops.Request) (any, error) {
	return func(ctx context.Context, r ops.Request) (any, error) {
		text, err := plain(r)
		if err != nil {
			return nil, err
		}
		order := message.SwitchOrder{Switch: text}
		if strings.HasPrefix(order.Switch, "{") {
			if err := r.Read(&order); err != nil {
				return nil, err
			}
		}
		if order.Switch == "" {
			order.Switch = "mail"
		}
		answer := message.SwitchChange{Operation: operation, Switch: order.Switch}
		err = pgdb.InTx(ctx, d.pool, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, turns[operation], order.Switch, r.Operator).Scan(&answer.Changed)
		})
		if err != nil {
			return nil, asked(fmt.Errorf("%s %s: %w", operation, order.Switch, err))
		}
		d.wake()
		return answer, nil
	}
}

// plain is a request that is a word. PostgreSQL takes no NUL and nothing that is not UTF-8, and
// not every way to send a statement says so in the same words.
func plain(r ops.Request) (string, error) {
	text := strings.TrimSpace(string(r.Data))
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return "", &ops.BadRequestError{Text: "the request is no plain text"}
	}
	return text, nil
}
