package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/e2e/stack"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// FRESH=1 deletes nothing beside a run that uses the folder, or a server that was left.
func TestFreshKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "postgres", "data")
	write(t, data, "precious")
	_, busy, err := net.SplitHostPort(listen(t).Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fresh := func() error {
		return run(t.Context(), nil, func(name string) string {
			return map[string]string{"SLOTWISE_DIR": dir, "FRESH": "1", "NATS_PORT": busy}[name]
		})
	}
	unlock, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := fresh(); err == nil || !strings.Contains(err.Error(), "another `make run` uses") {
		t.Errorf("beside another run: %v", err)
	}
	if _, err := os.Stat(data); err != nil {
		t.Error(err)
	}
	unlock()
	if err := fresh(); err == nil || !strings.Contains(err.Error(), "the port is busy") {
		t.Errorf("with a busy port: %v", err)
	}
	if _, err := os.Stat(data); err != nil {
		t.Error(err)
	}
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, file := range []string{"lock", "env", "postgres/data"} {
		write(t, filepath.Join(dir, file), "x")
	}
	if err := empty(dir); err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir(dir)
	if err != nil || len(all) != 1 || all[0].Name() != "lock" {
		t.Errorf("left are %v, %v", all, err)
	}
}

// An exported address of an earlier run is told at once; a server of somebody else's is not
// ours to judge.
func TestOwnURL(t *testing.T) {
	t.Parallel()
	const database = "postgres://postgres:it's@127.0.0.1:1/slotwise"
	dir := t.TempDir()
	running := "nats://" + listen(t).Addr().String()
	for _, c := range []struct {
		wrote, nats, database string
		told                  string
	}{
		{"nats://127.0.0.1:1", "nats://127.0.0.1:1", "", "NATS_URL"},
		{"nats://127.0.0.1:1", "", database, "DATABASE_URL"},
		{"nats://127.0.0.1:1", "nats://127.0.0.1:2", "", ""},
		{"nats://127.0.0.1:11", "nats://127.0.0.1:1", "", ""},
		{"nats://127.0.0.1:1", "", "", ""},
		{running, running, "", ""},
	} {
		write(t, filepath.Join(dir, "env"), fmt.Sprintf("NATS_URL='%s'\nDATABASE_URL='%s'\n", c.wrote, strings.ReplaceAll(database, "'", `'\''`)))
		err := own(t.Context(), stack.Config{Dir: dir, NATSURL: c.nats, DatabaseURL: c.database})
		if c.told == "" && err != nil || c.told != "" && (!errors.Is(err, errSettings) || !strings.Contains(err.Error(), "unset "+c.told) || strings.Contains(err.Error(), "it's")) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	began := time.Now()
	err := run(t.Context(), nil, func(name string) string {
		return map[string]string{"SLOTWISE_DIR": dir, "DATABASE_URL": database}[name]
	})
	if !errors.Is(err, errSettings) || time.Since(began) > 10*time.Second {
		t.Errorf("make run: %v after %v", err, time.Since(began))
	}
}
