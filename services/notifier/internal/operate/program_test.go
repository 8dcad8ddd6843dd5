package operate_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/checkout"
	"github.com/slotwise/slotwise/testkit/seed"
)

// built is the operator's program, built at most once.
var built = sync.OnceValues(func() (string, error) {
	root, err := checkout.Root()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "slotwise") // of all tests; TestMain removes it
	if err != nil {
		return "", err
	}
	programs = dir
	cmd := exec.Command("go", "build", "-o", dir, "./cmd/slotwise")
	cmd.Dir = filepath.Join(root, "ops")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return filepath.Join(dir, "slotwise"), nil
})

// programs is the folder of what was built; empty: nothing was.
var programs string

func TestMain(m *testing.M) {
	code := m.Run()
	if programs != "" {
		os.RemoveAll(programs) //nolint:errcheck // a folder of the system's for such things
	}
	os.Exit(code)
}

// slotwise runs the program as the operator dev and fails unless it exits with code.
func (s served) slotwise(code int, args ...string) string {
	s.t.Helper()
	program, err := built()
	if err != nil {
		s.t.Fatalf("build slotwise: %v", err)
	}
	cmd := exec.CommandContext(s.t.Context(), program, args...)
	cmd.Env = []string{"NATS_URL=" + s.bus.URL(), "NATS_NKEY_FILE=" + s.bus.SeedFile("dev")}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		s.t.Errorf("slotwise %s: %v, want code %d\n%s", strings.Join(args, " "), err, code, out)
	}
	return string(out)
}

// says fails unless the parts are in the text.
func (s served) says(text string, parts ...string) {
	s.t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			s.t.Errorf("it does not say %q:\n%s", part, text)
		}
	}
}

// A night on call, with the program alone.
func TestProgram(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := s.Book(seed.Booking{Resource: resource, Lead: 24 * time.Hour})
	host := id.Mail{Kind: "confirm", Booking: b.ID, Version: 1, Host: true}.String()
	customer := id.Mail{Kind: "confirm", Booking: b.ID, Version: 1}.String()

	s.says(s.slotwise(0, "trace", b.ID), "v1, confirmed", "(mail of v1, customer)", "the relay has not published v1", "(reminder of v1, customer)")
	s.says(s.slotwise(3, "trace", "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"), "there is no booking")
	s.says(s.slotwise(2, "trace", "1"), "no booking's id")

	s.planned(b)
	s.ended(sendlog.Rejected, "550 5.1.1 no such user")
	s.says(s.slotwise(0, "messages", "list"), customer+" ", host+" ", ": 550 5.1.1 no such user")
	s.says(s.slotwise(0, "overdue"), "0 overdue; 0 held and 2 refused")
	s.says(s.slotwise(0, "messages", "list", "--state", "refused", "--role", "host", "--since", "1h"), host+" ")
	s.says(s.slotwise(0, "messages", "show", host), "last answer ", "550 5.1.1 no such user")
	s.says(s.slotwise(3, "messages", "show", "none"), "no message of that key")
	s.says(s.slotwise(2, "messages", "list", "--state", "hold"), "unknown states: hold")

	s.says(s.slotwise(2, "messages", "retry"), "the filter is empty")
	s.says(s.slotwise(2, "messages", "retry", "--reason", "5.1.1"), customer, "2 messages would be planned again", "--yes")
	s.want(customer, "refused: 550 5.1.1 no such user")
	s.says(s.slotwise(0, "messages", "retry", "--reason", "5.1.1", "--dry-run"), "2 messages would be planned again")
	if n := s.woken.Load(); n != 0 {
		t.Errorf("dry runs have woken senders %d times", n)
	}
	s.says(s.slotwise(0, "messages", "retry", customer), "1 message planned again")
	if n := s.woken.Load(); n != 1 {
		t.Errorf("retry has woken senders %d times", n)
	}
	s.says(s.slotwise(0, "messages", "retry", "--reason", "5.1.1"), "1 message planned again") // one is left
	s.says(s.slotwise(3, "messages", "retry", customer), "nothing matches")

	s.says(s.slotwise(0, "pause"), "mail is paused")
	s.says(s.slotwise(0, "pause", "mail"), "mail was paused already")
	s.says(s.slotwise(2, "pause", "post"), "there is no switch post")
	s.says(s.slotwise(0, "switches"), "mail is paused by dev since", "webhooks are not paused")
	s.says(s.slotwise(0, "trace", b.ID), "waiting: mail is paused by dev", "operations", `{"reason":"5.1.1"}`)
	woken := s.woken.Load()
	s.says(s.slotwise(0, "resume", "mail"), "mail is not paused")
	if n := s.woken.Load(); n == woken {
		t.Error("resume wakes nobody")
	}

	s.ended(sendlog.Accepted, "250 ok")
	s.says(s.slotwise(0, "messages", "resend", customer), customer+"-c2", "1 message planned to be resent")
	s.says(s.slotwise(0, "messages", "discard", "--booking", b.ID, "--role", "customer"), "1 message discarded")
	s.want(customer+"-c2", "skipped: discarded by dev")
	s.exec(`update notifier.send_log set state = 'held', reason = 'why' where key = $1`, host)
	s.says(s.slotwise(0, "messages", "release", host), "1 message released")
	s.says(s.slotwise(0, "messages", "list", "--json"), `"messages": []`)

	s.bus.Stop()
	s.says(s.slotwise(1, "overdue"), "NATS_URL")
}
