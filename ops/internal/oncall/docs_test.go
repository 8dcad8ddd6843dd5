package oncall_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/ops/internal/oncall"
	"github.com/slotwise/slotwise/pkg/ops"
	"github.com/slotwise/slotwise/pkg/ops/message"
	"github.com/slotwise/slotwise/testkit/checkout"
)

// Every command of the runbook is one that this program takes.
func TestRunbook(t *testing.T) {
	t.Parallel()
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	one := func(ops.Request) any {
		return map[string]any{"changed": 1, "unparked": 1, "messages": []any{map[string]any{"key": "k"}}, "facts": map[string]any{}}
	}
	d := serve(t, map[string]any{
		"get trace": one, "get messages": one, "get overdue": one, "get switches": []any{}, "get relay": one, "do release": one, "do retry": one,
		"do discard": one, "do resend": one, "do pause": message.SwitchChange{}, "do resume": message.SwitchChange{}, "do unpark": one, "do reconcile": one, "do republish": map[string]int{"stored": 1},
		"do lift": message.Lift{Lifted: true}, "get suppressions": message.Suppressions{},
		"get webhooks": message.Endpoints{Endpoints: []message.Endpoint{{}}}, "get deliveries": message.Deliveries{},
		"do webhook-create": message.NewSecret{}, "do webhook-enable": message.EndpointChange{}, "do webhook-disable": message.EndpointChange{},
		"do webhook-delete": message.EndpointChange{}, "do webhook-rotate": message.EndpointChange{}, "do webhook-recover": message.EndpointChange{},
		"do webhook-resend": message.EndpointChange{}, "do webhook-example": message.EndpointChange{},
	})
	d.publish(t, d.declare(t), told(first, 1))
	used := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		line, _, _ = strings.Cut(line, " > ")
		if !strings.HasPrefix(line, "slotwise ") || strings.Contains(line, "--help") {
			continue
		}
		args := strings.Fields(strings.NewReplacer("$BOOKING", "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f", "$KEY", "k", "$ENDPOINT", "we_abcdefghijklmnop", "$DELIVERY", "webhook-k", `"`, "").Replace(line))[1:]
		command, rest, ok := oncall.Find(args)
		if !ok {
			t.Errorf("%s: there is no such command", line)
			continue
		}
		used[command.Name] = true
		getenv := func(name string) string { return d.env[name] }
		if err := command.Run(t.Context(), rest, getenv, &strings.Builder{}); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, c := range oncall.Commands {
		if !used[c.Name] {
			t.Errorf("the runbook has no use for slotwise %s", c.Name)
		}
	}
}
