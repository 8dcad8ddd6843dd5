package send_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/services/notifier/internal/send"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"go.uber.org/zap"
)

// childEnv makes this test binary a sender: a process that can be killed and frozen.
const childEnv = "SLOTWISE_TEST_SENDER"

// childSettings are what a child needs.
type childSettings struct {
	Database    string
	Mail        string
	CAFile      string
	Connections int
	Times       sendlog.Times
}

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		if err := runChild(text); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runChild sends until its standard input ends.
func runChild(text string) error {
	var c childSettings
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, err := pgxpool.New(ctx, c.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	server, err := url.Parse(c.Mail)
	if err != nil {
		return err
	}
	env := config.New("child", func(name string) string {
		return map[string]string{"SMTP_URL": c.Mail, "SMTP_CA_FILE": c.CAFile}[name]
	})
	settings := send.Read(env)
	settings.Server, settings.Connections, settings.Rate = server, c.Connections, 0
	if err := env.Err(); err != nil {
		return err
	}
	s := send.New(sendlog.New(pool, c.Times), settings, render,
		func(sendlog.Hand) string { return "bookings@slotwise.example" }, zap.NewNop(), prometheus.NewRegistry())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	fmt.Fprintln(os.Stdout, "ready")
	return s.Run(ctx)
}

// child is a sender in a process of its own.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	over  bool
}

// startChild starts a sender and returns once it runs; it is killed at the end of the test.
func (s *stage) startChild(connections int) *child {
	s.t.Helper()
	text, err := json.Marshal(childSettings{s.db.URL("slotwise_notifier"), s.mail.URL(), s.mail.CAFile(), connections, s.times})
	if err != nil {
		s.t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	c := &child{t: s.t, cmd: exec.CommandContext(context.WithoutCancel(s.t.Context()), program)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	c.cmd.Stderr = os.Stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.kill)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		s.t.Fatalf("child said %q: %v", line, err)
	}
	return c
}

// kill ends the process as kill -9 does.
func (c *child) kill() {
	if c.over {
		return
	}
	c.over = true
	_ = c.cmd.Process.Kill() // it may be gone
	_ = c.cmd.Wait()         // killed
}

// freeze stops the process where it is; thaw lets it go on.
func (c *child) freeze() { c.signal(syscall.SIGSTOP) }
func (c *child) thaw()   { c.signal(syscall.SIGCONT) }

func (c *child) signal(sig syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.t.Fatal(err)
	}
	if sig == syscall.SIGSTOP {
		c.awaitStopped()
	}
}

// awaitStopped returns once the kernel has stopped all threads.
func (c *child) awaitStopped() {
	c.t.Helper()
	for end := time.Now().Add(soon); time.Now().Before(end); {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(c.cmd.Process.Pid, &status, syscall.WUNTRACED|syscall.WNOHANG, nil)
		if err != nil {
			c.t.Fatal(err)
		}
		if pid != 0 && status.Stopped() {
			return
		}
	}
	c.t.Fatal("the child does not stop")
}

// end stops the process as SIGTERM does and waits for it.
func (c *child) end() {
	c.t.Helper()
	c.over = true
	_ = c.stdin.Close()
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("child: %v", err)
	}
}
