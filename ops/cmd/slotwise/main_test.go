package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/ops/internal/oncall"
	"github.com/slotwise/slotwise/testkit/bustest"
)

// Another user than topology is told at once what it may not do, and nothing else.
func TestTopologyDenied(t *testing.T) {
	t.Parallel()
	server := bustest.New(t)
	for _, user := range []string{"dev", "booking"} {
		began := time.Now()
		err := run(t.Context(), []string{"topology", "apply"}, func(name string) string {
			return map[string]string{"NATS_URL": server.URL(), "NATS_NKEY_FILE": server.SeedFile(user)}[name]
		}, &bytes.Buffer{})
		if code(err) != 1 || !strings.Contains(strings.ToLower(err.Error()), "permissions violation") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: code %d, %v", user, code(err), err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s is told after %v", user, took)
		}
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args string
		out  string // part of what is written
		code int
	}{
		{"", "slotwise trace BOOKING", 0},
		{"--help", "slotwise messages discard", 0},
		{"help", "slotwise pause [mail|webhooks]", 0},
		{"--version", "slotwise ", 0},
		{"trace --help", "NATS_NKEY_FILE", 0},
		{"messages", "slotwise messages list", 2},
		{"messages --help", "slotwise messages list", 0},
		{"messages count", "slotwise messages list", 2},
		{"mail", "", 2},
		{"trace", "", 2},
		{"overdue", "", 1}, // nobody listens there
	}
	for _, tt := range tests {
		var out bytes.Buffer
		err := run(t.Context(), strings.Fields(tt.args), func(name string) string {
			return map[string]string{"NATS_URL": "nats://127.0.0.1:1"}[name]
		}, &out)
		if code(err) != tt.code || !strings.Contains(out.String(), tt.out) {
			t.Errorf("slotwise %s: code %d, %v, want %d\n%s\nwant %q", tt.args, code(err), err, tt.code, out.String(), tt.out)
		}
	}
	for _, c := range oncall.Commands {
		if err := run(t.Context(), append(strings.Fields(c.Name), "--help"), func(string) string { return "" }, &bytes.Buffer{}); err != nil {
			t.Errorf("slotwise %s --help: %v", c.Name, err)
		}
	}
}
