package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// program makes this test binary the program.
const program = "TESTDB_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(program) != "" {
		main()
	}
	os.Exit(m.Run())
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
	for _, args := range [][]string{nil, {"--"}, {"/no/such/command"}} {
		if code, err := run(args); code == 0 || err == nil {
			t.Errorf("run(%q) = %d, %v", args, code, err)
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
