package install

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/e2e/stack"
	"github.com/slotwise/slotwise/testkit/checkout"
)

// Programs builds the programs of a stack, with the race detector and with what only
// rehearsals may do, and returns the repository and the folder that they are in. All test
// binaries share it, and what is up to date is not linked again.
var Programs = sync.OnceValues(func() (p Places, err error) {
	if p.Root, err = checkout.Root(); err != nil {
		return p, err
	}
	p.Bin = filepath.Join(p.Root, "bin", "rehearsal")
	free, err := Lock(p.Bin)
	if err != nil {
		return p, err
	}
	defer free()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	return p, stack.Build(ctx, p.Root, p.Bin, os.Stderr, Flags...)
})

// Flags are those that programs of tests are built with.
var Flags = []string{"-race", "-tags", "rehearsal"}

// Places are where things lie.
type Places struct{ Root, Bin string }

// Lock makes a folder of programs and keeps other test binaries from writing it, until free is
// called.
func Lock(dir string) (free func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as bin
		return nil, fmt.Errorf("make the folder of programs: %w", err)
	}
	lock, err := os.Create(filepath.Join(dir, ".lock"))
	if err != nil {
		return nil, fmt.Errorf("lock the programs: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		lock.Close() //nolint:errcheck // nothing was written
		return nil, fmt.Errorf("lock the programs: %w", err)
	}
	return func() { lock.Close() }, nil //nolint:errcheck // that frees it
}
