package sendlog_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/pooler"
)

// B29: every statement works in each way in which it may be sent, straight and, for those that
// need nothing of a session, through a pooler in transaction mode.
func TestB29ExecModes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		mode   pgx.QueryExecMode
		pooled bool
	}{
		"cache_statement":         {pgx.QueryExecModeCacheStatement, false},
		"cache_describe":          {pgx.QueryExecModeCacheDescribe, false},
		"exec":                    {pgx.QueryExecModeExec, false},
		"simple_protocol":         {pgx.QueryExecModeSimpleProtocol, false},
		"cache_describe, pooled":  {pgx.QueryExecModeCacheDescribe, true},
		"exec, pooled":            {pgx.QueryExecModeExec, true},
		"simple_protocol, pooled": {pgx.QueryExecModeSimpleProtocol, true},
	} {
		if !slices.Contains(dbtest.ExecModes(), tt.mode) {
			continue // behind a pooler already
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, sendlog.DefaultTimes())
			url := f.db.URL("slotwise_notifier")
			if tt.pooled {
				url = pooler.New(t, f.db, "slotwise_notifier").URL("slotwise_notifier")
			}
			config, err := pgxpool.ParseConfig(url)
			if err != nil {
				t.Fatal(err)
			}
			config.ConnConfig.DefaultQueryExecMode = tt.mode
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			f.Log = sendlog.New(pool, sendlog.DefaultTimes())
			f.everything()
		})
	}
}

// everything calls every method of the log, and most of the ways through it.
func (f fixture) everything() {
	f.t.Helper()
	for _, end := range []struct {
		outcome sendlog.Outcome
		state   string
	}{
		{sendlog.Accepted, "sent"},
		{sendlog.Again, "planned: it's"},
		{sendlog.Lost, "planned: it's"},
		{sendlog.Rejected, "refused: it's"},
		{sendlog.NoAnswer, "unknown: it's"},
		{sendlog.Unsendable, "held: it's"},
	} {
		m := mail(f.book(), sendlog.Confirm, 1)
		f.plan(m)
		h := f.one()
		if err := f.Renew(f.ctx(), []sendlog.Hand{h}); err != nil || h.Lease.Over(time.Now()) {
			f.t.Errorf("renew: %v", err)
		}
		f.write(h, end.outcome, "it's")
		f.want(m.Key, end.state)
		f.exec(`update notifier.send_log set due_at = 'infinity' where state in ('planned', 'unknown')`)
	}
	booking := f.book()
	m := mail(booking, sendlog.Confirm, 1)
	f.plan(m)
	old := f.one()
	f.expire()
	f.sweep()
	f.write(old, sendlog.Accepted, "250 late")
	f.want(m.Key, "sent")
	f.cancel(booking)
	f.plan(mail(booking, sendlog.Confirm, 1), mail(booking, sendlog.Cancel, 2))
	if due, _, err := f.Next(f.ctx()); err != nil || due {
		f.t.Errorf("due %t behind a quiet time: %v", due, err)
	}
	if b, err := f.Backlog(f.ctx()); err != nil || b.States[sendlog.Held] != 1 {
		f.t.Errorf("%+v: %v", b, err)
	}
	f.endpoint("we_1")
	if got := f.planEvents([]sendlog.Message{mail(f.book(), sendlog.Confirm, 1)}, announcement(1)); len(got) != 2 {
		f.t.Errorf("planned %q", got)
	}
	if got := f.planEvents([]sendlog.Message{mail(f.book(), sendlog.Confirm, 1)}, announcement(2)); len(got) != 2 {
		f.t.Errorf("planned %q", got)
	}
	if n, err := f.Forget(f.ctx()); err != nil || n != 0 {
		f.t.Errorf("%d forgotten: %v", n, err)
	}
}
