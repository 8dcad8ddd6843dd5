package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/slotwise/slotwise/testkit/hooktest"
)

// statements are those that meet the whole log, with the types of their parameters and values for them.
var statements = []struct {
	name, sql string
	types     []string
	values    string
}{
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
// the day of the installation, and with that of a full log.
func TestReadsOnlyWhatItIsAbout(t *testing.T) {
	t.Parallel()
	s := newStage(t, quick(), hooktest.Options{})
	s.exec(`insert into notifier.endpoints (id, url) select 'we_' || n, 'https://hooks.example/' from generate_series(1, 100) n`)
	s.exec(`insert into notifier.endpoint_secrets (endpoint, secret) select id, $1 from notifier.endpoints`, secret("a"))
	s.exec(`insert into notifier.send_log (key, channel, kind, endpoint, urgency, state, due_at, accepted_at)
		select 'sent-' || n, 'webhook', 'webhook', 'we_' || 1 + n % 100, 0, 'sent', now(), now() from generate_series(1, 40000) n`)
	s.exec(`insert into notifier.send_log (key, channel, kind, endpoint, urgency, state, due_at)
		select 'waits-' || n, 'webhook', 'webhook', 'we_1', 0, 'planned', now() - interval '1 minute' from generate_series(1, 20000) n`)
	s.exec(`insert into notifier.send_log (key, channel, kind, endpoint, urgency, state, due_at)
		select 'later-' || n, 'webhook', 'webhook', 'we_' || 1 + n % 100, 0, 'planned', now() + interval '1 day' from generate_series(1, 5000) n`)
	s.plan("we_7")
	sender := s.idle()
	hands := s.take(sender, 100)
	if got := counts(hands); got["we_1"] != 4 || got["we_7"] != 1 || len(hands) != 5 {
		t.Fatalf("in hand: %v", got)
	}
	s.exec(`delete from notifier.hands`) // read counts them again
	named := strings.NewReplacer("TOKEN", hands[0].Token, "KEY", hands[0].Key)
	for _, state := range []string{"young", "analyzed"} {
		for _, st := range statements {
			if blocks := s.blocks(st.sql, st.types, named.Replace(st.values)); blocks > 1500 {
				t.Errorf("%s, %s, touches %d blocks", st.name, state, blocks)
			} else {
				t.Logf("%s, %s: %d blocks", st.name, state, blocks)
			}
		}
		s.exec(`analyze`)
	}
}

// blocks is how many blocks a statement touches; it is rolled back.
func (s *stage) blocks(sql string, types []string, values string) (n int) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.db.URL("slotwise_notifier"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close(s.t.Context())
	signature := ""
	if len(types) > 0 {
		signature, values = "("+strings.Join(types, ",")+")", "("+values+")"
	}
	var text string
	for _, step := range []string{strings.ReplaceAll(settings, "true", "false"), `begin`, `prepare s ` + signature + ` as ` + sql} {
		if _, err := conn.Exec(s.t.Context(), step); err != nil {
			s.t.Fatalf("%s: %v", step, err)
		}
	}
	if err := conn.QueryRow(s.t.Context(), `explain (analyze, buffers, format json) execute s `+values, pgx.QueryExecModeSimpleProtocol).Scan(&text); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	var plan []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		s.t.Fatal(err)
	}
	return plan[0].Plan.Hit + plan[0].Plan.Read
}
