package oncall_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/ops/internal/oncall"
	"github.com/slotwise/slotwise/pkg/ops"
	"github.com/slotwise/slotwise/pkg/ops/message"
	"github.com/slotwise/slotwise/testkit/bustest"
	"go.uber.org/zap/zaptest"
)

var update = flag.Bool("update", false, "write the golden files")

// desk answers as a notifier does, with what the test says. The real one is asked by the tests
// of services/notifier/internal/operate, through the built program.
type desk struct {
	bus     *bustest.Server
	mu      sync.Mutex
	asked   []string          // endpoint, operator, request
	answers map[string]any    // by endpoint
	env     map[string]string // settings of the program
}

func serve(t *testing.T, answers map[string]any) *desk {
	t.Helper()
	d := &desk{bus: bustest.New(t), answers: answers}
	d.env = map[string]string{"NATS_URL": d.bus.URL(), "NATS_NKEY_FILE": d.bus.SeedFile("dev")}
	var endpoints []ops.Endpoint
	for name := range answers {
		command := strings.HasPrefix(name, "do ")
		_, word, _ := strings.Cut(name, " ")
		endpoints = append(endpoints, ops.Endpoint{Name: word, Command: command, Answer: func(_ context.Context, r ops.Request) (any, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.asked = append(d.asked, strings.TrimSpace(name+" "+r.Operator+" "+string(r.Data)))
			if err, ok := d.answers[name].(error); ok {
				return nil, err
			}
			if answer, ok := d.answers[name].(func(ops.Request) any); ok {
				return answer(r), nil
			}
			return d.answers[name], nil
		}})
	}
	nc := d.bus.Connect("notifier")
	stop, err := ops.Serve(nc, "notifier", "", zaptest.NewLogger(t), endpoints...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return d
}

// took returns what was asked since the last time, one request a line.
func (d *desk) took() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	asked := strings.Join(d.asked, "\n")
	d.asked = nil
	return asked
}

// run runs a command line.
func (d *desk) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	command, rest, ok := oncall.Find(args)
	if !ok {
		t.Fatalf("no command: %v", args)
	}
	var out bytes.Buffer
	err := command.Run(t.Context(), rest, func(name string) string { return d.env[name] }, &out)
	return out.String(), err
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\n%s\nwant\n%s", file, got, want)
	}
}

// read returns the answer that lies in a file.
func read[T any](t *testing.T, file string) (answer T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestTrace(t *testing.T) {
	t.Parallel()
	d := serve(t, map[string]any{"get trace": read[message.Trace](t, "trace.json")})
	out, err := d.run(t, "trace", "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "trace.golden", out)
	out, err = d.run(t, "trace", "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f", "--json")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "trace.json", out)
}

func TestTraceOfNothing(t *testing.T) {
	t.Parallel()
	d := serve(t, map[string]any{"get trace": message.Trace{
		Booking: "01928c7e-0000-7000-8000-000000000000", Reminders: message.Reminders{Error: "the stream REMINDERS is not there"},
	}})
	out, err := d.run(t, "trace", "01928c7e-0000-7000-8000-000000000000")
	if !errors.Is(err, oncall.ErrNothing) {
		t.Errorf("error %v", err)
	}
	golden(t, "trace-nothing.golden", out)
}

func TestLists(t *testing.T) {
	t.Parallel()
	trace := read[message.Trace](t, "trace.json")
	d := serve(t, map[string]any{
		"get messages": message.Page{Messages: trace.Messages, Next: trace.Messages[1].Key},
		"get overdue":  message.Overdue{Overdue: 2, Held: 1, Refused: 3, Messages: trace.Messages[:2]},
		"get switches": trace.Switches,
	})
	for file, args := range map[string][]string{
		"list.golden":     {"messages", "list", "--state", "held,refused", "--state", "sent", "--reason", "x", "--since", "2026-12-01 09:30:00Z", "--limit", "2", "--after", "k"},
		"show.golden":     {"messages", "show", "a", "b"},
		"overdue.golden":  {"overdue"},
		"switches.golden": {"switches"},
	} {
		out, err := d.run(t, args...)
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		golden(t, file, out)
	}
	want := `get messages  {"states":["held","refused","sent"],"reason":"x","since":"2026-12-01T09:30:00Z","limit":2,"after":"k"}`
	if asked := d.took(); !strings.Contains(asked, want) || !strings.Contains(asked, `get messages  {"keys":["a","b"]}`) {
		t.Errorf("asked\n%s\nwant\n%s", asked, want)
	}
}

func TestEmptyLists(t *testing.T) {
	t.Parallel()
	d := serve(t, map[string]any{"get messages": message.Page{Messages: []message.Message{}}, "get overdue": message.Overdue{}})
	for _, tt := range []struct {
		args, out string
		err       error
	}{
		{"messages list", "no such messages\n", nil},
		{"messages list --after k", "no more messages\n", nil},
		{"messages show k", "", oncall.ErrNothing},
		{"overdue", "0 overdue; 0 held and 0 refused wait for a person\n", nil},
		{"messages list --json", "{\n  \"messages\": []\n}\n", nil},
	} {
		if out, err := d.run(t, strings.Fields(tt.args)...); out != tt.out || !errors.Is(err, tt.err) {
			t.Errorf("%s: %q, %v", tt.args, out, err)
		}
	}
}

func TestChange(t *testing.T) {
	t.Parallel()
	// The order's limit says how many messages there are.
	d := serve(t, map[string]any{"do release": func(r ops.Request) any {
		var order message.Order
		if err := r.Read(&order); err != nil {
			return err.Error()
		}
		n := max(order.Limit, len(order.Keys))
		keys := make([]string, n)
		for i := range keys {
			keys[i] = "key-" + string(rune('a'+i))
		}
		return message.Change{Operation: "release", Changed: n, Keys: keys, DryRun: order.DryRun}
	}})
	tests := []struct {
		args, out string
		err       error
		asked     []string
	}{
		{"k1 k2", "key-a\nkey-b\n2 messages released\n", nil, []string{`{"keys":["k1","k2"]}`}},
		{"k1 --dry-run", "key-a\n1 message would be released\n", nil, []string{`{"keys":["k1"],"dry_run":true}`}},
		{"--limit 1 --kind reminder", "key-a\n1 message released\n", nil, []string{`{"kind":"reminder","limit":1,"dry_run":true}`, `{"kind":"reminder","limit":1}`}},
		{"--limit 2 --kind reminder", "key-a\nkey-b\n2 messages would be released\n", oncall.ErrUsage, []string{`{"kind":"reminder","limit":2,"dry_run":true}`}},
		{"--limit 2 --kind reminder --dry-run", "key-a\nkey-b\n2 messages would be released\n", nil, []string{`{"kind":"reminder","limit":2,"dry_run":true}`}},
		{"--limit 2 --kind reminder --yes", "key-a\nkey-b\n2 messages released\n", nil, []string{`{"kind":"reminder","limit":2}`}},
		{"--kind reminder", "0 messages released\n", oncall.ErrNothing, []string{`{"kind":"reminder","dry_run":true}`, `{"kind":"reminder"}`}},
		{"k1 --json", "{\n  \"operation\": \"release\",\n  \"changed\": 1,\n  \"keys\": [\n    \"key-a\"\n  ]\n}\n", nil, []string{`{"keys":["k1"]}`}},
	}
	for _, tt := range tests {
		out, err := d.run(t, append([]string{"messages", "release"}, strings.Fields(tt.args)...)...)
		if out != tt.out || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("%s: %q, %v; want %q, %v", tt.args, out, err, tt.out, tt.err)
		}
		if got, want := d.took(), "do release dev "+strings.Join(tt.asked, "\ndo release dev "); got != want {
			t.Errorf("%s asks\n%s\nwant\n%s", tt.args, got, want)
		}
	}
	out, err := d.run(t, "messages", "release", "--limit", "25", "--kind", "reminder", "--yes")
	if err != nil || !strings.Contains(out, "key-t\n… and 5 more\n25 messages released\n") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestTurn(t *testing.T) {
	t.Parallel()
	d := serve(t, map[string]any{
		"do pause":  message.SwitchChange{Operation: "pause", Changed: true},
		"do resume": message.SwitchChange{Operation: "resume"},
	})
	for _, tt := range []struct{ args, out, asked string }{
		{"pause", "mail is paused\n", `do pause dev {"switch":"mail"}`},
		{"pause webhooks", "webhooks are paused\n", `do pause dev {"switch":"webhooks"}`},
		{"resume mail", "mail was not paused already\n", `do resume dev {"switch":"mail"}`},
		{"resume webhooks", "webhooks were not paused already\n", `do resume dev {"switch":"webhooks"}`},
	} {
		out, err := d.run(t, strings.Fields(tt.args)...)
		if asked := d.took(); out != tt.out || err != nil || asked != tt.asked {
			t.Errorf("%s: %q, %v; asked %s", tt.args, out, err, asked)
		}
	}
}

func TestServices(t *testing.T) {
	t.Parallel()
	parked := map[string]any{
		"id": 18, "key": "k", "subject": "s", "message_id": "booking-k-v3", "attempts": 9, "reason": "message\ntoo large", "parked_at": "2026-12-01T02:56:00Z",
	}
	d := serve(t, map[string]any{
		"get relay": map[string]any{
			"outbox": "booking.outbox_events", "stream": "BOOKINGS", "waiting": 3, "oldest_seconds": 12.3, "paused_since": "2026-12-01T02:56:00Z",
			"pause_reason": "maximum bytes exceeded", "parked": 1, "parked_rows": []any{parked},
		},
		"do unpark": func(r ops.Request) any {
			return map[string]int{"unparked": strings.Count(string(r.Data), "1")}
		},
		"do reconcile": map[string]int{"looked": 20, "created": 1},
		"get suppressions": func(r ops.Request) any {
			if string(r.Data) != "{}" {
				return message.Suppressions{}
			}
			at := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
			return message.Suppressions{Suppressions: []message.Suppression{
				{Address: "a@b.example", Reason: "550 5.1.1 no", Since: at, Key: "k"}, {Address: "longer@b.example", Reason: "550 5.1.10\ntakes no mail", Since: at, Key: "k2"},
			}, Next: "longer@b.example"}
		},
		"do lift": func(r ops.Request) any { return message.Lift{Lifted: string(r.Data) == "k"} },
	})
	for _, tt := range []struct {
		args, out, asked string
		err              error
	}{
		{"relay", "booking.outbox_events to BOOKINGS: 3 waiting, the oldest for 12s; 1 parked\nit pauses since 2026-12-01 02:56:00Z: maximum bytes exceeded\n\n" +
			"parked\n  18  booking-k-v3  parked 2026-12-01 02:56:00Z  9 refusals  message too large\n", "get relay", nil},
		{"unpark 1 21", "2 events due again\n", `do unpark dev {"ids":[1,21]}`, nil},
		{"unpark 1 --json", "{\n  \"unparked\": 1\n}\n", `do unpark dev {"ids":[1]}`, nil},
		{"unpark --all", "0 events due again\n", `do unpark dev {"all":true}`, oncall.ErrNothing},
		{"unpark all", "", "", oncall.ErrUsage},
		{"suppressions list", "a@b.example       since 2026-12-01 09:00:00Z  k   550 5.1.1 no\nlonger@b.example  since 2026-12-01 09:00:00Z  k2  550 5.1.10 takes no mail\nthere are more: --after longer@b.example\n", "get suppressions  {}", nil},
		{"suppressions list A@b.example --limit 2 --after a", "no such suppressions\n", `get suppressions  {"address":"A@b.example","after":"a","limit":2}`, nil},
		{"suppressions list a b", "", "", oncall.ErrUsage},
		{"suppressions lift k", "mails go to that address again; slotwise messages retry plans what was refused\n", "do lift dev k", nil},
		{"suppressions lift k --json", "{\n  \"lifted\": true\n}\n", "do lift dev k", nil},
		{"suppressions lift a@b.example", "", "do lift dev a@b.example", oncall.ErrNothing},
		{"suppressions lift", "", "", oncall.ErrUsage},
		{"reconcile", "20 reminders ahead, 1 schedule made again\n", "do reconcile dev", nil},
	} {
		out, err := d.run(t, strings.Fields(tt.args)...)
		if asked := d.took(); out != tt.out || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) || asked != tt.asked {
			t.Errorf("%s: %q, %v; asked %s; want %q", tt.args, out, err, asked, tt.out)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	d := serve(t, map[string]any{"get messages": &ops.BadRequestError{Text: "unknown states: hold"}})
	for args, want := range map[string]string{
		"trace":                              "name one booking",
		"trace a b":                          "name one booking",
		"overdue now":                        "now is no argument",
		"switches mail":                      "mail is no argument",
		"messages show":                      "name at least one key",
		"messages list --stat held":          "flag provided but not defined",
		"messages list --limit many":         "invalid value",
		"messages list --since soon":         "neither a duration nor a time",
		"messages list --state hold":         "unknown states: hold",
		"messages release k --until 1.12.26": "neither a duration nor a time",
		"pause mail webhooks":                "one switch at a time",
	} {
		if _, err := d.run(t, strings.Fields(args)...); !errors.Is(err, oncall.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	for name, value := range map[string]string{"SLOTWISE_OPERATOR": "an na", "NATS_URL": "http://here"} {
		env := d.env
		d.env = map[string]string{"NATS_URL": env["NATS_URL"], name: value}
		if _, err := d.run(t, "switches"); !errors.Is(err, oncall.ErrUsage) || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), value) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
		d.env = env
	}
}

// Whatever keeps an answer away is said, and what to look at.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	d := serve(t, map[string]any{"get switches": errors.New("the pool is closed"), "get overdue": "no object"})
	tests := map[string]struct {
		args string
		env  map[string]string
		want string
	}{
		"no notifier":    {"messages list", nil, "no notifier answers: does one run"},
		"it fails":       {"switches", nil, "the notifier could not answer (500)"},
		"another answer": {"overdue", nil, "is one of them older than the other?"},
		"no server":      {"switches", map[string]string{"NATS_URL": "nats://127.0.0.1:1"}, "NATS_URL"},
		"another's name": {"pause", map[string]string{"SLOTWISE_OPERATOR": "anna"}, "NATS does not allow"},
		"another's key":  {"switches", map[string]string{"NATS_NKEY_FILE": d.bus.SeedFile("relay")}, "NATS does not allow"},
		"no key":         {"switches", map[string]string{"NATS_NKEY_FILE": ""}, "NATS_NKEY_FILE"},
		"no seed":        {"switches", map[string]string{"NATS_NKEY_FILE": "ask.go"}, "holds no nkey seed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"NATS_URL": d.env["NATS_URL"], "NATS_NKEY_FILE": d.env["NATS_NKEY_FILE"]}
			maps.Copy(env, tt.env)
			one := &desk{env: env}
			start := time.Now()
			if _, err := one.run(t, strings.Fields(tt.args)...); err == nil || errors.Is(err, oncall.ErrUsage) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var all bytes.Buffer
	oncall.Help(&all, "")
	golden(t, "help.golden", all.String())
	d := &desk{}
	for _, c := range oncall.Commands {
		if !oncall.Begins(strings.Fields(c.Name)[0]) || !strings.Contains(all.String(), "slotwise "+c.Name) {
			t.Errorf("%s is not told", c.Name)
		}
		out, err := d.run(t, append(strings.Fields(c.Name), "--help")...)
		if err != nil || !strings.Contains(out, c.About) || !strings.Contains(out, "--json") || !strings.Contains(out, "NATS_URL") {
			t.Errorf("%s --help: %q, %v", c.Name, out, err)
		}
	}
	out, err := d.run(t, "messages", "discard", "-h")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "help-discard.golden", out)
	if _, _, ok := oncall.Find([]string{"messages"}); ok {
		t.Error("half a command is found")
	}
}
