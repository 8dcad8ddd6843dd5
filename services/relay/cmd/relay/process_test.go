package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slotwise/slotwise/testkit/bustest"
	"github.com/slotwise/slotwise/testkit/dbtest"
)

// build builds the relay as it ships, once for all tests.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "relay")
	if err != nil {
		return "", err
	}
	atExit = append(atExit, func() { _ = os.RemoveAll(dir) })
	binary := filepath.Join(dir, "relay")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-o", binary, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the relay: %w\n%s", err, out)
	}
	return binary, nil
})

// process is a relay that runs as its own process.
type process struct {
	*exec.Cmd
	tb    testing.TB
	admin string
	log   bytes.Buffer
	done  chan error
}

// start starts a relay for db and bus with more settings, NAME=value.
func start(tb testing.TB, db *dbtest.DB, bus *bustest.Server, settings ...string) *process {
	tb.Helper()
	binary, err := build()
	if err != nil {
		tb.Fatal(err)
	}
	p := &process{Cmd: exec.CommandContext(context.WithoutCancel(tb.Context()), binary), tb: tb, admin: freeAddr(tb), done: make(chan error, 1)}
	p.Env = append([]string{
		"DATABASE_URL=" + db.URL("slotwise_relay"),
		"NATS_URL=" + bus.URL(),
		"NATS_NKEY_FILE=" + bus.SeedFile("relay"),
		"ADMIN_ADDR=" + p.admin,
	}, settings...)
	p.Stderr = &p.log
	if err := p.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() { p.done <- p.Wait() }()
	tb.Cleanup(func() {
		p.signal(syscall.SIGCONT)
		p.signal(syscall.SIGKILL)
		_ = p.wait() // killed
		if tb.Failed() {
			tb.Logf("relay's log:\n%s", p.log.String())
		}
	})
	return p
}

func (p *process) signal(s syscall.Signal) { _ = p.Process.Signal(s) } // it may have ended

// wait waits for the process's end and returns its error.
func (p *process) wait() error {
	err := <-p.done
	p.done <- err
	return err
}

// get asks the admin port.
func (p *process) get(path string) (status int, body string) {
	request, err := http.NewRequestWithContext(p.tb.Context(), http.MethodGet, "http://"+p.admin+path, http.NoBody)
	if err != nil {
		p.tb.Fatal(err)
	}
	response, err := (&http.Client{Timeout: 5 * time.Second}).Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	var text bytes.Buffer
	_, _ = text.ReadFrom(response.Body)
	return response.StatusCode, text.String()
}

// peakMiB is the most memory that the process had resident so far.
func (p *process) peakMiB() float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		p.tb.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseFloat(strings.Fields(kb)[0], 64)
			if err != nil {
				p.tb.Fatal(err)
			}
			return n / 1024
		}
	}
	p.tb.Fatal("no VmHWM")
	return 0
}

func freeAddr(tb testing.TB) string {
	tb.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
