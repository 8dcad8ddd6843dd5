// Package install gives each test a whole Slotwise of its own: the real programs as processes,
// built for rehearsals, with a database and a nats-server that nobody else uses, and a
// customer in front of it. Packages of e2e that kill, freeze or take away parts share it.
package install

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/testkit/dbtest"
)

// Installation is a running stack.
type Installation struct {
	*stack.Stack
	T   *testing.T
	DB  *dbtest.DB // nil when the test has named another database
	Bin string     // the folder of the programs
	Dir string     // of its data
	Key string     // API key of all requests; empty: none
	Log *Log
}

// Resources are what every installation has: a room for one, with a host, and two halls that
// are never full, one of them with a host.
const Resources = `resources:
  - {id: room, name: Room, zone: Europe/Berlin, capacity: 1, slot_minutes: 60, host_address: host@slotwise.example}
  - {id: hall, name: Hall, zone: Europe/Berlin, capacity: 10000, slot_minutes: 60}
  - {id: hosted, name: Hosted hall, zone: Europe/Berlin, capacity: 10000, slot_minutes: 60, host_address: host@slotwise.example}
`

// Start starts a stack, changed by the given functions, which ends with the test. Unless one
// of them names a database it gets its own. When the test fails, its last lines are shown.
func Start(t *testing.T, change ...func(*stack.Config)) *Installation {
	t.Helper()
	places, err := Programs()
	if err != nil {
		t.Fatalf("build the programs: %v", err)
	}
	in := &Installation{T: t, Log: &Log{}}
	c := stack.Config{
		Root: places.Root, Bin: places.Bin, Dir: filepath.Join(t.TempDir(), "data"), Out: in.Log,
		Env: map[string]string{"SLOTWISE_TIMES": "", "SLOTWISE_FAILPOINTS": "", "LOG_LEVEL": "debug", "MAILS_PER_HOUR": "0"}, // few addresses get thousands
	}
	for _, f := range change {
		f(&c)
	}
	if c.DatabaseURL == "" {
		in.DB = dbtest.New(t)
		c.DatabaseURL, c.Password = in.DB.URL(""), dbtest.Password
	}
	in.Bin, in.Dir = c.Bin, c.Dir
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last lines of all parts:\n%s", in.Log.Tail(300))
		}
	})
	if in.Stack, err = stack.Start(t.Context(), c); err != nil {
		t.Fatalf("start: %v", err)
	}
	in.Key = in.APIKey()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		if err := in.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	in.apply(Resources)
	return in
}

// apply brings resources into the database, as an operator does.
func (in *Installation) apply(resources string) {
	in.T.Helper()
	file := filepath.Join(in.T.TempDir(), "resources.yaml")
	if err := os.WriteFile(file, []byte(resources), 0o600); err != nil {
		in.T.Fatal(err)
	}
	cmd := exec.CommandContext(in.T.Context(), filepath.Join(in.Bin, "booking"), "resources", "apply", file) //nolint:gosec // our own
	cmd.Env = append(os.Environ(), "DATABASE_URL="+in.DatabaseURL("slotwise_booking"))
	if out, err := cmd.CombinedOutput(); err != nil {
		in.T.Fatalf("apply resources: %v\n%s", err, out)
	}
}

// Count runs a query that answers one number, as the administrator.
func (in *Installation) Count(sql string, args ...any) int {
	in.T.Helper()
	var n int
	if err := in.DB.Admin.QueryRow(in.T.Context(), sql, args...).Scan(&n); err != nil {
		in.T.Fatal(err)
	}
	return n
}

// Eventually polls until check passes, or fails the test with its last error.
func (in *Installation) Eventually(within time.Duration, what string, check func(context.Context) error) {
	in.T.Helper()
	ctx, cancel := context.WithTimeout(in.T.Context(), within)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			in.T.Fatalf("not within %s: %s (%v)", within, what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Copy starts one more copy of a service (see [stack.Stack.Add]) and fails the test if it
// can't.
func (in *Installation) Copy(name, service string, env ...string) *stack.Process {
	in.T.Helper()
	p, err := in.Add(in.T.Context(), name, service, env...)
	if err != nil {
		in.T.Fatal(err)
	}
	return p
}
