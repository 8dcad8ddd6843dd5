package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/services/notifier/internal/plan"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/testkit/mailtest"
	"github.com/slotwise/slotwise/testkit/seed"
)

// output is what a process has written, on both streams.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// process starts this binary as the service with settings env; it is killed when the test ends.
func process(t *testing.T, env map[string]string, args ...string) (*exec.Cmd, *output) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // the test's own ends before its cleanups
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = []string{"BE_THE_NOTIFIER=1"}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if cmd.ProcessState == nil {
			cmd.Wait() //nolint:errcheck // it was killed
		}
		if t.Failed() {
			t.Logf("the process wrote:\n%s", out)
		}
	})
	return cmd, out
}

// B141: SIGTERM comes when the mail server has the message and has not answered.
func TestB141SIGTERMFinishesWhatIsInHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answer := make(chan struct{})
	w.mail.Script(mailtest.Fault{Phase: mailtest.Dot, Until: answer})
	var want map[string]int
	log := sendlog.New(w.db.Pool("slotwise_notifier"), sendlog.DefaultTimes())
	for range 2 { // one in hand; the other, whose turn comes with one connection only later, stays
		b := w.bookings.Book(seed.Booking{Resource: "room-7"})
		if want == nil {
			want = map[string]int{b.Address: 1}
		}
		if _, err := log.Plan(t.Context(), plan.Owed(b.Event)); err != nil {
			t.Fatal(err)
		}
	}
	w.env["SMTP_CONNECTIONS"] = "1"
	cmd, _ := process(t, w.env)
	w.mail.WaitCounts("dot", soon, func(c mailtest.Counts) bool { return c.Dots == 1 })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it stops and says so", func() bool {
		_, why := w.get("/readyz")
		return strings.Contains(why, "stopping")
	})
	close(answer)
	if err := cmd.Wait(); err != nil {
		t.Errorf("exit: %v", err)
	}
	w.wantMails(want)
	w.wantStates(map[sendlog.State]int{sendlog.Sent: 1, sendlog.Planned: 1})
}

func TestSettingsMistakesComeAllAtOnce(t *testing.T) {
	t.Parallel()
	cmd, out := process(t, map[string]string{
		"MAIL_FROM": "nobody", "SMTP_CONNECTIONS": "0", "SEND_RATE": "-1", "AUDIT_EVERY": "1h", "SMTP_TLS": "maybe", "CATCH_UP_LIMIT": "1s",
	})
	if err := cmd.Wait(); err == nil {
		t.Error("it started")
	}
	for _, name := range []string{"DATABASE_URL", "SMTP_URL", "MAIL_FROM", "SMTP_CONNECTIONS", "SEND_RATE", "AUDIT_EVERY", "SMTP_TLS", "CATCH_UP_LIMIT"} {
		if !strings.Contains(out.String(), name+" ") {
			t.Errorf("nothing is said about %s:\n%s", name, out)
		}
	}
	for name, env := range map[string]map[string]string{
		"MAIL_FROM":     {"MAIL_FROM": "bücher@example.org"},
		"MAIL_DOMAIN":   {"MAIL_FROM": "a@example.org", "MAIL_DOMAIN": "example.org>"},
		"BOUNCE_DOMAIN": {"BOUNCE_DOMAIN": "b@example.org"},
		"BOUNCE_SECRET": {"BOUNCE_SECRET": "a guess"},
	} {
		cmd, out := process(t, env)
		if cmd.Wait() == nil || !strings.Contains(out.String(), name+" must ") {
			t.Errorf("with %v it says:\n%s", env, out)
		}
	}
}

// B148: no password in anything that is written, whether a setting is understood or not.
func TestB148SecretsAreNotShown(t *testing.T) {
	t.Parallel()
	const odd, plain = "q^G$%zz", "Zyxw-Unique"
	broken, out := process(t, map[string]string{
		"DATABASE_URL": "postgres://u:" + odd + "@localhost:port/d", "NATS_URL": "nats://u:" + odd + "@localhost:port",
		"SMTP_URL": "smtp://u:" + odd + "@localhost:port", "MAIL_FROM": "a@example.org",
	})
	if broken.Wait() == nil || strings.Contains(out.String(), odd) {
		t.Errorf("with broken settings it says:\n%s", out)
	}
	nobody := freeAddr(t)
	cmd, out := process(t, map[string]string{
		"ADMIN_ADDR":   freeAddr(t),
		"DATABASE_URL": "postgres://u:" + plain + "@" + nobody + "/d", "NATS_URL": "nats://u:" + plain + "@" + nobody,
		"SMTP_URL": "smtp://u:" + plain + "@" + nobody, "BOUNCE_SECRET": plain + plain, "MAIL_FROM": "a@example.org", "LOG_LEVEL": "debug",
	})
	eventually(t, "it waits for both", func() bool {
		return strings.Contains(out.String(), "database is not ready") && strings.Contains(out.String(), "nats is not reachable")
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("exit while waiting: %v", err)
	}
	if strings.Contains(out.String(), plain) || !strings.Contains(out.String(), "u:xxxxx@") {
		t.Errorf("the settings' line has no masked password, or another line has the password:\n%s", out)
	}
}

func TestMigrateNeedsOnlyTheDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 2 { // there is nothing to do the second time, nor here the first
		cmd, out := process(t, map[string]string{"DATABASE_URL": w.db.URL("slotwise_notifier_owner")}, "migrate")
		if err := cmd.Wait(); err != nil {
			t.Errorf("migrate: %v\n%s", err, out)
		}
	}
	if _, err := w.db.Admin.Exec(t.Context(), `drop schema notifier cascade`); err != nil {
		t.Fatal(err)
	}
	cmd, out := process(t, map[string]string{"DATABASE_URL": w.db.URL("slotwise_notifier_owner")}, "migrate")
	if err := cmd.Wait(); err != nil {
		t.Errorf("migrate from nothing: %v\n%s", err, out)
	}
	w.wantStates(map[sendlog.State]int{}) // there is a send log again
}

func TestArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for args, want := range map[string]string{"--help": "MAIL_FROM", "--version": "notifier ", "fly": "unknown command"} {
		cmd, out := process(t, w.env, args)
		if err := cmd.Wait(); (err == nil) != strings.HasPrefix(args, "--") || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
}
