package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	program   = "TESTDB_TEST_PROGRAM" // makes this test binary the program
	wantFsync = "TESTDB_TEST_FSYNC"   // makes it check the server that the program gives it
)

func TestMain(m *testing.M) {
	if os.Getenv(program) != "" {
		main()
	}
	if want := os.Getenv(wantFsync); want != "" {
		os.Exit(checkFsync(want))
	}
	os.Exit(m.Run())
}

// checkFsync is 0 when the server has fsync as wanted.
func checkFsync(want string) int {
	conn, err := pgx.Connect(context.Background(), os.Getenv("TEST_DATABASE_URL"))
	if err != nil {
		return 1
	}
	defer conn.Close(context.Background())
	var got string
	if err := conn.QueryRow(context.Background(), `select current_setting('fsync')`).Scan(&got); err != nil || got != want {
		return 1
	}
	return 0
}

func TestRun(t *testing.T) {
	t.Setenv("TEST_DATABASE_URL", "")
	file := filepath.Join(t.TempDir(), "url")
	code, err := run([]string{"--", "sh", "-c", `echo $TEST_DATABASE_URL >` + file + `; exit 7`})
	if code != 7 || err != nil {
		t.Errorf("run = %d, %v: want the command's code", code, err)
	}
	url, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.Connect(t.Context(), strings.TrimSpace(string(url))); err == nil {
		t.Error("the server is still there")
	}
	for _, args := range [][]string{nil, {"--"}, {"-durable"}, {"/no/such/command"}} {
		if code, err := run(args); code == 0 || err == nil {
			t.Errorf("run(%q) = %d, %v", args, code, err)
		}
	}
}

// Benchmarks get a server that syncs its commits.
func TestDurable(t *testing.T) {
	t.Setenv("TEST_DATABASE_URL", "")
	for fsync, args := range map[string][]string{"on": {"-durable"}, "off": {"--"}} {
		t.Setenv(wantFsync, fsync)
		if code, err := run(append(args, os.Args[0])); code != 0 || err != nil {
			t.Errorf("fsync is not %s: %d, %v", fsync, code, err)
		}
	}
}

// The command hears a signal, the server ends after it.
func TestSignal(t *testing.T) {
	t.Setenv("TEST_DATABASE_URL", "")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "sh", "-c",
		`trap 'echo heard; exit 3' TERM; echo $TEST_DATABASE_URL; while :; do sleep 0.1; done`)
	cmd.Env = append(os.Environ(), program+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	url := lines.Text()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	lines.Scan()
	if lines.Text() != "heard" {
		t.Errorf("the command said %q", lines.Text())
	}
	start := time.Now()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("exit code %d: %v", cmd.ProcessState.ExitCode(), err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the end took %s", took)
	}
	if _, err := pgx.Connect(t.Context(), url); err == nil {
		t.Error("the server is still there")
	}
}
