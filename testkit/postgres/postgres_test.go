package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slotwise/slotwise/testkit/postgres"
)

// image runs these tests through Docker, as it does for all tests: see package dbtest.
var image = os.Getenv("TEST_POSTGRES_IMAGE")

// starterDir makes this test binary a process that starts a server and waits to be killed.
const starterDir = "POSTGRES_TEST_STARTER_DIR"

func TestMain(m *testing.M) {
	dir, starter := os.LookupEnv(starterDir)
	if !starter {
		os.Exit(m.Run())
	}
	s, err := postgres.Start(context.Background(), postgres.Options{Dir: dir, Image: image})
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, s.AdminURL)
	select {}
}

func TestTemporaryServer(t *testing.T) {
	t.Parallel()
	s := start(t, postgres.Options{Image: image})
	conn := connect(t, s.AdminURL)
	for setting, want := range map[string]string{"fsync": "off", "max_connections": "300", "synchronous_commit": "on"} {
		if got := ask(t, conn, `select current_setting($1)`, setting); got != want {
			t.Errorf("%s = %s, want %s", setting, got, want)
		}
	}
	dir := ask(t, conn, `select current_setting('data_directory')`)
	stop(t, s)
	if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary folder is still there: %v", err)
	}
	select {
	case <-s.Done():
	default:
		t.Error("Done is open after Stop")
	}
}

func TestDataFolderSurvives(t *testing.T) {
	t.Parallel()
	o := postgres.Options{Image: image, Dir: dataDir(t), Password: "a 'b' \\c:@/", Durable: true, Set: map[string]string{"work_mem": "5MB"}}
	s := start(t, o)
	conn := connect(t, s.AdminURL)
	if _, err := conn.Exec(t.Context(), `create table kept as select 1 as a`); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, conn, `select current_setting('fsync') || current_setting('work_mem')`); got != "on5MB" {
		t.Errorf("fsync and work_mem = %s", got)
	}
	if strings.Contains(s.How, "a 'b'") {
		t.Error("How tells the password")
	}
	stop(t, s)

	s = start(t, o)
	if got := ask(t, connect(t, s.AdminURL), `select a::text from kept`); got != "1" {
		t.Errorf("kept = %s", got)
	}
	wrong := strings.Replace(s.AdminURL, "postgres:", "postgres:x", 2)
	if _, err := pgx.Connect(t.Context(), wrong); err == nil {
		t.Error("a wrong password is let in")
	}
	stop(t, s)
	o.Password = "another"
	if _, err := postgres.Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "password authentication failed") {
		t.Errorf("Start with another password than the folder's = %v", err)
	}
}

func TestDiesWithItsStarter(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"", dataDir(t)} {
		starter := exec.CommandContext(t.Context(), os.Args[0])
		starter.Env = append(os.Environ(), starterDir+"="+dir)
		out, err := starter.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := starter.Start(); err != nil {
			t.Fatal(err)
		}
		var url string
		if _, err := fmt.Fscanln(out, &url); err != nil {
			t.Fatalf("the starter said %q: %v", url, err)
		}
		conn := connect(t, url)
		data := ask(t, conn, `select current_setting('data_directory')`)
		if err := starter.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = starter.Wait() // killed
		if dir != "" {     // the next start waits for its end, although it wants the same port
			config, err := pgx.ParseConfig(url)
			if err != nil {
				t.Fatal(err)
			}
			stop(t, start(t, postgres.Options{Dir: dir, Image: image, Addr: fmt.Sprintf("%s:%d", config.Host, config.Port)}))
		}
		eventually(t, "the server ends", func() bool {
			_, err := pgx.Connect(t.Context(), url)
			return errors.Is(err, syscall.ECONNREFUSED)
		})
		if dir == "" {
			eventually(t, "the temporary folder goes", func() bool {
				_, err := os.Stat(filepath.Dir(data))
				return errors.Is(err, os.ErrNotExist)
			})
		}
	}
}

func TestStaleLock(t *testing.T) {
	t.Parallel()
	o := postgres.Options{Dir: dataDir(t)}
	s := start(t, o)
	lock := filepath.Join(o.Dir, "postmaster.pid")
	content := read(t, lock)
	pid, rest, _ := strings.Cut(content, "\n")
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	// Worse than a dead number: one that is in use again, by a process of the same user's.
	sleeper := exec.CommandContext(t.Context(), "sleep", "600")
	sleeper.SysProcAttr = &syscall.SysProcAttr{}
	info, err := os.Stat(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		sleeper.SysProcAttr.Credential = &syscall.Credential{Uid: st.Uid, Gid: st.Gid}
	}
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
	if err := os.WriteFile(lock, fmt.Appendf(nil, "%d\n%s", sleeper.Process.Pid, rest), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, o)
}

func TestBusyPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a loopback socket
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = postgres.Start(t.Context(), postgres.Options{Addr: l.Addr().String()})
	var busy *postgres.BusyError
	if !errors.As(err, &busy) || busy.Addr != l.Addr().String() {
		t.Fatalf("Start = %v, want a BusyError", err)
	}
}

func TestGivenURL(t *testing.T) {
	t.Parallel()
	s := start(t, postgres.Options{})
	given, err := postgres.Start(t.Context(), postgres.Options{URL: s.AdminURL})
	if err != nil {
		t.Fatal(err)
	}
	stop(t, given)
	ask(t, connect(t, given.AdminURL), `select 'still there'`)

	for _, url := range []string{"postgres://u:secret@127.0.0.1:1/x", "postgres://u:secret%zz@127.0.0.1:1/x", "secret nonsense"} {
		_, err := postgres.Start(t.Context(), postgres.Options{URL: url, Setting: "DATABASE_URL"})
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "DATABASE_URL") {
			t.Errorf("Start(%s) = %v, want an error that names the setting and no secret", url, err)
		}
	}
}

func TestFailedStartTellsTheLog(t *testing.T) {
	t.Parallel()
	_, err := postgres.Start(t.Context(), postgres.Options{Image: image, Set: map[string]string{"work_mem": "nonsense"}})
	if err == nil || !strings.Contains(err.Error(), "work_mem") {
		t.Fatalf("Start = %v, want the server's own words", err)
	}
}

// start starts a server that is stopped at the end of the test.
func start(t *testing.T, o postgres.Options) *postgres.Server {
	t.Helper()
	s, err := postgres.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *postgres.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func ask(t *testing.T, conn *pgx.Conn, sql string, args ...any) string {
	t.Helper()
	var answer string
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// dataDir is a data folder below one that only we may enter, as in a clone in /root.
func dataDir(t *testing.T) string {
	t.Helper()
	parent := t.TempDir()
	if err := os.Chmod(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(parent, "data")
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); time.Sleep(10 * time.Millisecond) { //nolint:forbidigo // polls
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
