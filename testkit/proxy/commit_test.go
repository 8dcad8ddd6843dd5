package proxy_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slotwise/slotwise/testkit/dbtest"
	"github.com/slotwise/slotwise/testkit/proxy"
)

// The two ways in which a client does not know what became of its COMMIT.
func TestB30CommitThroughTheProxy(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		do        func(*proxy.Conn)
		committed bool
	}{
		"its answer is lost":        {func(c *proxy.Conn) { c.Drop(proxy.ToClient) }, true},
		"the answer's way is cut":   {func(c *proxy.Conn) { c.CutAt(proxy.ToClient) }, true},
		"it is lost":                {func(c *proxy.Conn) { c.Drop(proxy.ToServer) }, false},
		"its way is cut before it":  {func(c *proxy.Conn) { c.Cut() }, false},
		"its answer comes too late": {func(c *proxy.Conn) { c.Hold(proxy.ToClient) }, true},
	} {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
			t.Run(name+" in mode "+mode.String(), func(t *testing.T) {
				t.Parallel()
				db := dbtest.New(t)
				if _, err := db.Admin.Exec(t.Context(), `create table things (n int)`); err != nil {
					t.Fatal(err)
				}
				p := proxy.New(t, db.URL(""))
				config, err := pgx.ParseConfig(p.URL(db.URL("")))
				if err != nil {
					t.Fatal(err)
				}
				config.DefaultQueryExecMode = mode
				conn, err := pgx.ConnectConfig(t.Context(), config)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close(context.WithoutCancel(t.Context()))

				met := p.When(proxy.ToServer, proxy.Commit, tt.do)
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, `insert into things values ($1)`, 1)
					return err
				})
				if err == nil {
					t.Error("the client believes that it knows")
				}
				<-met
				var n int
				eventually(t, "the transaction's end", func() bool {
					p.Cut() // a server does not end a transaction whose client is silent
					err := db.Admin.QueryRow(t.Context(), `select count(*) from pg_stat_activity where state like 'idle in transaction%' and datname = current_database()`).Scan(&n)
					return err == nil && n == 0
				})
				if err := db.Admin.QueryRow(t.Context(), `select count(*) from things`).Scan(&n); err != nil || n == 1 != tt.committed {
					t.Errorf("%d rows, committed: %t (%v)", n, tt.committed, err)
				}
			})
		}
	}
}
