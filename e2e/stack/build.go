package stack

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// programs are what a stack runs, by folder of the repository.
var programs = []string{
	"./services/booking/cmd/booking", "./services/relay/cmd/relay",
	"./services/notifier/cmd/notifier", "./services/scheduler/cmd/scheduler",
	"./ops/cmd/slotwise", "./testkit/cmd/inbox",
}

// Build builds the programs of a stack into bin, with flags for `go build` such as -race. It
// takes nats-server from the repository's own bin, where `make tools` puts it, and builds the
// pinned one there first when it is missing.
func Build(ctx context.Context, root, bin string, out io.Writer, flags ...string) error {
	args := append([]string{"build", "-o", bin + string(filepath.Separator)}, flags...)
	if err := run(ctx, root, out, "go", append(args, programs...)...); err != nil {
		return fmt.Errorf("build the services: %w", err)
	}
	server := filepath.Join(root, "bin", "nats-server")
	if _, err := os.Stat(server); err != nil {
		if err := run(ctx, root, out, "make", "--no-print-directory", "bin/nats-server"); err != nil {
			return fmt.Errorf("build nats-server: %w", err)
		}
	}
	target := filepath.Join(bin, "nats-server")
	if target == server {
		return nil
	}
	if err := os.RemoveAll(target); err != nil {
		return fmt.Errorf("replace nats-server: %w", err)
	}
	if err := os.Symlink(server, target); err != nil {
		return fmt.Errorf("link nats-server: %w", err)
	}
	return nil
}

func run(ctx context.Context, dir string, out io.Writer, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // words of our own
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, args[0], err)
	}
	return nil
}
