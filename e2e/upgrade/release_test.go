// Package upgrade runs today's services against the schema, the events and the programs of the
// last release, the commit that deploy/RELEASED names, and its programs against today's schema.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/e2e/install"
	"github.com/slotwise/slotwise/e2e/stack"
)

// release is the last release: its files, and its services built as today's are.
type release struct{ dir, bin string }

// released returns the last release, or false and says so when there was none. Its files and
// programs are kept below bin: they never change.
func released(t *testing.T, places install.Places) (release, bool) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(places.Root, "deploy", "RELEASED"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Log("no deploy/RELEASED: nothing was released yet, so there is nothing to compare with")
		return release{}, false
	}
	words := strings.Fields(string(text))
	if err != nil || len(words) == 0 {
		t.Fatalf("deploy/RELEASED names no commit: %v", err)
	}
	dir := filepath.Join(places.Root, "bin", "released", words[0])
	free, err := install.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	r := release{dir: filepath.Join(dir, "src"), bin: filepath.Join(dir, "bin")}
	if _, err := os.Stat(filepath.Join(r.bin, "complete")); err == nil {
		return r, true
	}
	if err := r.build(t.Context(), places.Root, words[0]); err != nil {
		t.Fatal(err)
	}
	return r, true
}

func (r release) build(ctx context.Context, root, commit string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for _, dir := range []string{r.dir, r.bin} {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as bin
			return err
		}
	}
	archive := r.dir + ".tar"
	args := append([]string{"build", "-buildvcs=false", "-o", r.bin + string(filepath.Separator)}, install.Flags...)
	for _, service := range stack.Services {
		args = append(args, "./services/"+service+"/cmd/"+service)
	}
	for _, step := range []struct {
		dir, name string
		args      []string
	}{
		{root, "git", []string{"archive", "-o", archive, commit}}, // a shallow clone has no such commit: git says so
		{r.dir, "tar", []string{"-xf", archive}},
		{r.dir, "go", args},
	} {
		cmd := exec.CommandContext(ctx, step.name, step.args...) //nolint:gosec // words of our own
		cmd.Dir = step.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w\n%s", step.name, step.args[0], err, out)
		}
	}
	return os.WriteFile(filepath.Join(r.bin, "complete"), nil, 0o600)
}
