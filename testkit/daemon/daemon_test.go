package daemon_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slotwise/slotwise/testkit/daemon"
)

// starterDir makes this test binary a process that starts a server and waits to be killed.
const starterDir = "DAEMON_TEST_STARTER_DIR"

func TestMain(m *testing.M) {
	dir, starter := os.LookupEnv(starterDir)
	if !starter {
		os.Exit(m.Run())
	}
	if _, err := startSleeper(dir, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

// startSleeper starts a server that prints its process id and does nothing.
func startSleeper(dir string, out io.Writer) (*daemon.Process, error) {
	user, err := daemon.NotRoot()
	if err != nil {
		return nil, err
	}
	if err := user.Own(dir); err != nil {
		return nil, err
	}
	return daemon.Start(daemon.Command{
		Args: []string{"/bin/sh", "-c", "id -u; echo $$; exec sleep 600"}, User: user, Signal: "TERM", Remove: dir, Out: out,
	})
}

func TestStop(t *testing.T) {
	t.Parallel()
	dir, out := newDir(t), newFile(t)
	p, err := startSleeper(dir, out)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	eventually(t, "it prints", func() bool {
		text, err := os.ReadFile(out.Name())
		words = strings.Fields(string(text))
		return err == nil && len(words) == 2
	})
	if words[0] == "0" {
		t.Error("the server runs as root")
	}
	for range 2 { // a second Stop has nothing to do
		if err := p.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	<-p.Done()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is still there: %v", err)
	}
}

func TestStopKills(t *testing.T) {
	t.Parallel()
	user, err := daemon.NotRoot()
	if err != nil {
		t.Fatal(err)
	}
	out := newFile(t)
	p, err := daemon.Start(daemon.Command{
		Args: []string{"/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"}, User: user, Signal: "TERM", Out: out,
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it ignores its signal", func() bool {
		text, err := os.ReadFile(out.Name())
		return err == nil && len(text) > 0
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop of a server that ignores its signal = %v, want that it was killed", err)
	}
}

func TestDiesWithItsStarter(t *testing.T) {
	t.Parallel()
	dir := newDir(t)
	starter := exec.CommandContext(t.Context(), os.Args[0])
	starter.Env = append(os.Environ(), starterDir+"="+dir)
	out, err := starter.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan() // the user
	lines.Scan()
	pid, err := strconv.Atoi(lines.Text())
	if err != nil {
		t.Fatal(err)
	}
	if err := starter.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = starter.Wait() // killed
	eventually(t, "the server ends", func() bool { return syscall.Kill(pid, 0) != nil })
	eventually(t, "its folder goes", func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist)
	})
}

func TestFind(t *testing.T) {
	if path, err := daemon.Find(t.Context(), io.Discard, "sh", "dash"); err != nil || !filepath.IsAbs(path) {
		t.Errorf("Find(sh) = %q, %v", path, err)
	}
	t.Setenv("PATH", "/nowhere") // no apt-get either
	_, err := daemon.Find(t.Context(), io.Discard, "no-such-program", "its-package")
	if err == nil || !strings.Contains(err.Error(), "its-package") || !strings.Contains(err.Error(), "apt-get") {
		t.Errorf("Find of what is not there = %v, want the ways to get it", err)
	}
}

// newDir is a folder that another user can reach, unlike those of tests.
func newDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "slotwise-daemon-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func newFile(t *testing.T) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
