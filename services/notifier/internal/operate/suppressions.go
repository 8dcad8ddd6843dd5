package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/pkg/ops"
	"github.com/slotwise/slotwise/pkg/ops/message"
	"github.com/slotwise/slotwise/pkg/pgdb"
)

const suppressionsSQL = `
	select to_jsonb(s)
	from notifier.suppressions s
	where ($1::text = '' or s.address = lower($1 collate "C"))
	  and s.address > $2::text collate "C"
	order by s.address
	limit $3::integer`

func (d *Desk) suppressions(ctx context.Context, r ops.Request) (any, error) {
	var q message.SuppressionQuery
	if err := r.Read(&q); err != nil {
		return nil, err
	}
	if q.Limit < 0 || strings.ContainsRune(q.Address+q.After, 0) {
		return nil, &ops.BadRequestError{Text: "the limit is less than 1, or an address is none"}
	}
	size := min(cmp.Or(q.Limit, pageSize), maxPage)
	page := message.Suppressions{Suppressions: []message.Suppression{}}
	err := d.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found, err := all[message.Suppression](ctx, tx, suppressionsSQL, strings.TrimSpace(q.Address), q.After, size+1)
		if err != nil {
			return fmt.Errorf("list suppressions: %w", err)
		}
		page.Suppressions = append(page.Suppressions, found...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	keep := fitting(page.Suppressions[:min(len(page.Suppressions), size)])
	if keep < len(page.Suppressions) {
		page.Suppressions = page.Suppressions[:keep]
		page.Next = page.Suppressions[keep-1].Address
	}
	return page, nil
}

// lift lets mails go again to an address, or to that of the message with a key: an operator who
// has read a trace knows the key alone.
func (d *Desk) lift(ctx context.Context, r ops.Request) (any, error) {
	address, err := plain(r)
	if err != nil {
		return nil, err
	}
	if address == "" {
		return nil, &ops.BadRequestError{Text: "the request is neither an address nor a message's key"}
	}
	var answer message.Lift
	err = pgdb.InTx(ctx, d.pool, func(ctx context.Context, tx pgx.Tx) error {
		if !strings.Contains(address, "@") {
			err := tx.QueryRow(ctx, `
				select coalesce(case s.role when 'host' then b.host_address else b.address end, '')
				from notifier.send_log s
				join booking.for_notifier b on b.booking = s.booking
				where s.key = $1`, address).Scan(&address)
			if errors.Is(err, pgx.ErrNoRows) {
				return &ops.BadRequestError{Text: "there is no message of that key"}
			}
			if err != nil {
				return fmt.Errorf("find address: %w", err)
			}
		}
		return tx.QueryRow(ctx, `select notifier.lift($1, $2)`, address, r.Operator).Scan(&answer.Lifted)
	})
	if err != nil {
		return nil, asked(fmt.Errorf("lift: %w", err))
	}
	return answer, nil
}
