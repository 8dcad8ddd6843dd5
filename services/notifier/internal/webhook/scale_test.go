package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/hooktest"
)

type statement struct {
	name, sql string
	types     []string
	values    string
}

// statements are those that meet the whole log, with the types of their parameters and values for them.
var statements = []statement{
	{"take", takeSQL, []string{"uuid", "bigint", "bigint", "interval"}, "'TOKEN', 64, 32, '1 minute'"},
	{"read", readSQL, []string{"uuid"}, "'TOKEN'"},
	{"next", nextSQL, []string{"bigint"}, "32"},
	{"lock", lockSQL, []string{"text[]", "boolean[]", "boolean[]", "boolean[]", "interval"}, "'{we_7}', '{t}', '{f}', '{f}', '5 days'"},
	{"share", shareSQL, []string{"text[]"}, "'{we_7}'"},
	{"result", resultSQL, []string{"text[]", "uuid[]", "text[]", "text[]", "interval[]", "boolean[]"}, "'{KEY}', '{TOKEN}', '{again}', '{x}', '{5 s}', '{f}'"},
	{"health", healthSQL, []string{"text[]", "boolean[]", "boolean[]", "interval[]"}, "'{we_7}', '{t}', '{f}', '{1 s}'"},
	{"disable", disableSQL, []string{"text[]", "text[]", "integer[]", "text[]", "boolean[]", "interval"}, "'{we_7}', '{k}', '{1}', '{x}', '{f}', '5 days'"},
	{"late", lateSQL, []string{"text[]", "uuid[]", "text[]"}, "'{k}', array['TOKEN'::uuid], '{x}'"},
	{"sweep", sweepSQL, nil, ""},
}

// However many webhooks are sent, or wait for one endpoint, a statement reads what it is about: with the plan of
// the day of the installation, when all tables were empty, as with that of a full log.
func TestReadsOnlyWhatItIsAbout(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	conn, err := pgx.Connect(t.Context(), s.db.URL("slotwise_notifier"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), strings.ReplaceAll(sendlog.Settings, "true", "false")); err != nil {
		t.Fatal(err)
	}
	for _, st := range statements {
		s.touches(conn, st, strings.NewReplacer("TOKEN", "00000000-0000-4000-8000-000000000000", "KEY", "k"))
	}

	s.exec(`insert into notifier.endpoints (id, url) select 'we_' || n, 'https://hooks.example/' from generate_series(1, 100) n`)
	s.exec(`insert into notifier.endpoint_secrets (endpoint, secret) select id, $1 from notifier.endpoints`, secret("a"))
	s.exec(`insert into notifier.send_log (key, channel, kind, endpoint, urgency, state, due_at, accepted_at)
		select 'sent-' || n, 'webhook', 'webhook', 'we_' || 1 + n % 100, 0, 'sent', now(), now() from generate_series(1, 40000) n`)
	s.exec(`insert into notifier.send_log (key, channel, kind, endpoint, urgency, state, due_at)
		select 'waits-' || n, 'webhook', 'webhook', 'we_' || 1 + n % 2, 0, 'planned', now() - interval '1 minute' from generate_series(1, 20000) n`)
	s.exec(`insert into notifier.send_log (key, channel, kind, endpoint, urgency, state, due_at)
		select 'later-' || n, 'webhook', 'webhook', 'we_' || 1 + n % 100, 0, 'planned', now() + interval '1 day' from generate_series(1, 5000) n`)
	s.exec(`update notifier.endpoints set concurrency = 64 where id = 'we_2'`)
	s.plan("we_7")
	sender := s.idle()
	hands := s.take(sender, 20)
	if got := counts(hands); got["we_1"] != 4 || got["we_7"] != 1 || len(hands) != 20 {
		t.Fatalf("in hand: %v", got)
	}
	s.exec(`delete from notifier.hands`) // read counts them again
	named := strings.NewReplacer("TOKEN", hands[0].Token, "KEY", hands[0].Key)
	for _, state := range []string{"empty then", "analyzed"} {
		for _, st := range statements {
			blocks, rows := s.touches(conn, st, named)
			if blocks > 3000 || rows > 5000 {
				t.Errorf("%s, with the plan of a log that was %s, touches %d blocks and %d rows", st.name, state, blocks, rows)
			} else {
				t.Logf("%s, %s: %d blocks, %d rows", st.name, state, blocks, rows)
			}
		}
		s.exec(`analyze`)
		if _, err := conn.Exec(t.Context(), `deallocate all`); err != nil {
			t.Fatal(err)
		}
	}
}

// touches is how many blocks a statement touches, which is prepared unless it is already, and how many rows its
// plan's nodes look at; it is rolled back.
func (s *stage) touches(conn *pgx.Conn, st statement, named *strings.Replacer) (blocks, rows int) {
	s.t.Helper()
	ctx, signature, values := s.t.Context(), "", named.Replace(st.values)
	if len(st.types) > 0 {
		signature, values = "("+strings.Join(st.types, ",")+")", "("+values+")"
	}
	var there bool
	if err := conn.QueryRow(ctx, `select exists (select from pg_prepared_statements where name = 'p_`+st.name+`')`, pgx.QueryExecModeSimpleProtocol).Scan(&there); err != nil {
		s.t.Fatal(err)
	}
	if !there {
		if _, err := conn.Exec(ctx, `prepare p_`+st.name+` `+signature+` as `+st.sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			s.t.Fatalf("%s: %v", st.name, err)
		}
	}
	if _, err := conn.Exec(ctx, `begin`, pgx.QueryExecModeSimpleProtocol); err != nil {
		s.t.Fatal(err)
	}
	defer conn.Exec(ctx, `rollback`, pgx.QueryExecModeSimpleProtocol) //nolint:errcheck // the next begin would tell
	var text string
	if err := conn.QueryRow(ctx, `explain (analyze, buffers, format json) execute p_`+st.name+` `+values, pgx.QueryExecModeSimpleProtocol).Scan(&text); err != nil {
		s.t.Fatalf("%s: %v", st.name, err)
	}
	var plan []struct{ Plan node }
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		s.t.Fatal(err)
	}
	return plan[0].Plan.Hit + plan[0].Plan.Read, int(plan[0].Plan.work())
}

// node is a node of a plan that was carried out.
type node struct {
	Hit      int     `json:"Shared Hit Blocks"`
	Read     int     `json:"Shared Read Blocks"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Joined   float64 `json:"Rows Removed by Join Filter"`
	Below    []node  `json:"Plans"`
}

// work is how many rows the node and those below it have looked at.
func (n node) work() float64 {
	all := n.Loops * (n.Rows + n.Filtered + n.Joined)
	for _, b := range n.Below {
		all += b.work()
	}
	return all
}
