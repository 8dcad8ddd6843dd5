package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/ops"
	"github.com/slotwise/slotwise/pkg/ops/message"
)

const (
	// pageSize is how many messages a list holds unless it is asked for less or more.
	pageSize = 100
	// maxPage is how many it holds at most.
	maxPage = 1000
	// maxAnswer is the most bytes of an answer: max_payload of nats.conf is 256 KB, and a
	// header and a margin have to fit beside it.
	maxAnswer = 200_000
)

func (d *Desk) messages(ctx context.Context, r ops.Request) (any, error) {
	var q message.Query
	if err := r.Read(&q); err != nil {
		return nil, err
	}
	if q.Limit < 0 {
		return nil, &ops.BadRequestError{Text: "the limit is less than 1"}
	}
	size := min(cmp.Or(q.Limit, pageSize), maxPage)
	q.Limit = 0
	page := message.Page{Messages: []message.Message{}}
	err := d.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found, err := all[message.Message](ctx, tx, `select to_jsonb(m) from notifier.list($1, nullif($2, ''), $3) m`, asText(q.Filter), q.After, size+1)
		if err != nil {
			return fmt.Errorf("list messages: %w", err)
		}
		view, err := look(ctx, tx)
		if err != nil {
			return err
		}
		page.Messages = view.judged(found)
		return nil
	})
	if err != nil {
		return nil, err
	}
	keep := min(len(page.Messages), size)
	keep = fitting(page.Messages[:keep])
	if keep < len(page.Messages) {
		page.Messages = page.Messages[:keep]
		page.Next = page.Messages[keep-1].Key
	}
	return page, nil
}

// asText is a filter for the functions of schema notifier. They take jsonb: a struct has no
// type of its own where statements are not described before they run (DATABASE_EXEC_MODE).
func asText(f message.Filter) string {
	text, _ := json.Marshal(f) // strings, times and a number
	return string(text)
}

// fitting returns how many things of a list fit into one answer: one at least.
func fitting[T any](list []T) int {
	size := 0
	for i, one := range list {
		text, err := json.Marshal(one)
		size += len(text) + 1
		if i > 0 && (err != nil || size > maxAnswer) {
			return i
		}
	}
	return len(list)
}

func (d *Desk) overdue(ctx context.Context, _ ops.Request) (any, error) {
	answer := message.Overdue{}
	err := d.read(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		if answer, err = counts(ctx, tx); err != nil {
			return err
		}
		found, err := all[message.Message](ctx, tx, `
			select to_jsonb(m) from notifier.overdue m order by m.due_at, m.key limit $1`, pageSize)
		if err != nil {
			return fmt.Errorf("list overdue messages: %w", err)
		}
		view, err := look(ctx, tx)
		if err != nil {
			return err
		}
		answer.Messages = view.judged(found)
		return nil
	})
	answer.Messages = answer.Messages[:fitting(answer.Messages)]
	return answer, err
}

// counts reads how much is late and how much waits for a person.
func counts(ctx context.Context, tx pgx.Tx) (o message.Overdue, err error) {
	err = tx.QueryRow(ctx, `
		select (select count(*) from notifier.overdue),
		       (select count(*) from notifier.send_log where state = 'held'),
		       (select count(*) from notifier.send_log where state = 'refused')`).Scan(&o.Overdue, &o.Held, &o.Refused)
	if err != nil {
		return o, fmt.Errorf("count overdue messages: %w", err)
	}
	return o, nil
}

// stats is what `nats micro stats` shows of the service beside its own counts; nil when the
// database does not answer.
func (d *Desk) stats(ctx context.Context) any {
	var answer message.Stats
	err := d.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		o, err := counts(ctx, tx)
		if err != nil {
			return err
		}
		answer.Overdue, answer.Held, answer.Refused = o.Overdue, o.Held, o.Refused
		answer.Paused, err = all[string](ctx, tx, `select name from notifier.switches where paused order by name`)
		return err
	})
	if err != nil {
		return nil
	}
	return answer
}

func (d *Desk) switches(ctx context.Context, _ ops.Request) (any, error) {
	var answer []message.Switch
	err := d.read(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		answer, err = switches(ctx, tx)
		return err
	})
	return answer, err
}

func switches(ctx context.Context, tx pgx.Tx) ([]message.Switch, error) {
	found, err := all[message.Switch](ctx, tx, `select to_jsonb(s) from notifier.switches s order by s.name`)
	if err != nil {
		return nil, fmt.Errorf("read switches: %w", err)
	}
	return found, nil
}
