package failpoint_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// build builds testdata/probe with the given tags.
func build(t *testing.T, tags string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "probe")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-tags", tags, "-o", binary, "./testdata/probe").CombinedOutput()
	if err != nil {
		t.Fatalf("build the probe: %v\n%s", err, out)
	}
	return binary
}

// start starts the probe with the setting.
func start(t *testing.T, binary, setting string) (probe *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	probe = exec.CommandContext(t.Context(), binary)
	probe.Env = append(os.Environ(), "SLOTWISE_FAILPOINTS="+setting)
	probe.Stdout, probe.Stderr = stdout, stderr
	if err := probe.Start(); err != nil {
		t.Fatal(err)
	}
	return probe, stdout, stderr
}

// ended tells how a process has ended.
func ended(probe *exec.Cmd) string {
	_ = probe.Wait() // its state tells
	status, _ := probe.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return status.Signal().String()
	}
	return fmt.Sprint("status ", status.ExitStatus())
}

func TestActions(t *testing.T) {
	t.Parallel()
	binary := build(t, "rehearsal")
	const all = "1\n2\n3\n4\n5\n"
	for setting, want := range map[string]struct{ end, printed, said string }{
		"":                        {"status 0", all, ""},
		"other=kill":              {"status 0", all, ""},
		"probe=kill":              {"killed", "", "failpoint probe: kill\n"},
		"probe=kill:3":            {"killed", "1\n2\n", "failpoint probe: kill\n"},
		"other=kill,probe=exit:5": {"status 1", "1\n2\n3\n4\n", "failpoint probe: exit\n"},
		"probe=kill:6":            {"status 0", all, ""},
	} {
		probe, stdout, stderr := start(t, binary, setting)
		if end := ended(probe); end != want.end || stdout.String() != want.printed || stderr.String() != want.said {
			t.Errorf("%q: %s, printed %q, said %q, want %+v", setting, end, stdout, stderr, want)
		}
	}
	for _, setting := range []string{"probe", "probe=", "probe=die", "probe=kill:", "probe=kill:0", "probe=kill:x", "=kill", "probe=kill,probe=exit"} {
		probe, stdout, stderr := start(t, binary, setting)
		if end := ended(probe); end != "status 2" || stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), "SLOTWISE_FAILPOINTS: must be") {
			t.Errorf("%q: %s, printed %q, said %q, want to be told what is wrong", setting, end, stdout, stderr)
		}
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	probe, stdout, _ := start(t, build(t, "rehearsal"), "probe=stop:2")
	var status syscall.WaitStatus
	for deadline := time.Now().Add(10 * time.Second); !status.Stopped(); {
		if _, err := syscall.Wait4(probe.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || time.Now().After(deadline) {
			t.Fatalf("the probe does not stop: %v, %v", status, err)
		}
	}
	if err := probe.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if end := ended(probe); end != "status 0" || stdout.String() != "1\n2\n3\n4\n5\n" {
		t.Errorf("thawed: %s, printed %q", end, stdout)
	}
}

// A release has nothing of this package: no symbol, and nobody reads the setting.
func TestReleaseHasNothing(t *testing.T) {
	t.Parallel()
	for tags, wanted := range map[string]bool{"": false, "rehearsal": true} {
		binary := build(t, tags)
		symbols, err := exec.CommandContext(t.Context(), "go", "tool", "nm", binary).Output()
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		for what, has := range map[string]bool{
			"symbols":     bytes.Contains(symbols, []byte("pkg/failpoint.")),
			"the setting": bytes.Contains(content, []byte("SLOTWISE_FAILPOINTS")),
		} {
			if has != wanted {
				t.Errorf("built with the tags %q: it has %s: %t, want %t", tags, what, has, wanted)
			}
		}
	}
	probe, stdout, _ := start(t, build(t, ""), "probe=kill")
	if end := ended(probe); end != "status 0" || stdout.String() != "1\n2\n3\n4\n5\n" {
		t.Errorf("a release with the setting: %s, printed %q", end, stdout)
	}
}
