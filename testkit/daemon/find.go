package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
)

// Find returns the path of a program: on PATH, else in one of the folders where distributions
// put servers, else after apt-get has installed the package, which needs root on Debian or
// Ubuntu and is said to log. Its error names the ways.
func Find(ctx context.Context, log io.Writer, program, debianPackage string) (string, error) {
	path, err := onMachine(program)
	if err == nil {
		return path, nil
	}
	if err = Install(ctx, log, debianPackage); err == nil {
		path, err = onMachine(program)
	}
	if err != nil {
		return "", fmt.Errorf("no %s; one of these ways is needed:\n"+
			"  - the program on PATH or in /usr/sbin, such as from the package %s\n"+
			"  - apt-get on Debian or Ubuntu as root: %w", program, debianPackage, err)
	}
	return path, nil
}

// onMachine looks where servers lie: an ordinary user's PATH often lacks the sbin folders.
func onMachine(program string) (string, error) {
	dirs := append(filepath.SplitList(os.Getenv("PATH")), "/usr/local/sbin", "/usr/sbin", "/sbin")
	for _, dir := range slices.DeleteFunc(dirs, func(dir string) bool { return !filepath.IsAbs(dir) }) {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is neither on PATH nor in /usr/sbin", program)
}

// lockInstalls waits for other test binaries: apt-get does not.
func lockInstalls() (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(os.TempDir(), "slotwise-install.lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err == nil {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return nil, fmt.Errorf("lock installations: %w", err)
	}
	return func() { file.Close() }, nil //nolint:errcheck // nothing was written
}

// keepStopped makes packages not start the servers that they bring.
const keepStopped = "/usr/sbin/policy-rc.d"

// Install installs a package of the distribution, which needs root on Debian or Ubuntu and is
// said to log. Test binaries that start together wait for each other; servers that the package
// brings are not started.
func Install(ctx context.Context, log io.Writer, debianPackage string) (err error) {
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return errors.New("there is no apt-get")
	}
	if os.Geteuid() != 0 {
		return errors.New("not root")
	}
	unlock, err := lockInstalls()
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(keepStopped); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(keepStopped, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil { //nolint:gosec // dpkg runs it
			return fmt.Errorf("keep packages from starting servers: %w", err)
		}
		defer func() { err = errors.Join(err, os.Remove(keepStopped)) }()
	}
	fmt.Fprintf(log, "installing %s with apt-get\n", debianPackage)
	args := []string{"install", "-y", "--no-install-recommends", debianPackage}
	if aptGet(ctx, apt, args...) == nil {
		return nil
	}
	if err := aptGet(ctx, apt, "update"); err != nil { // a fresh machine has no lists yet
		return err
	}
	return aptGet(ctx, apt, args...)
}

func aptGet(ctx context.Context, apt string, args ...string) error {
	cmd := exec.CommandContext(ctx, apt, append([]string{"-o", "DPkg::Lock::Timeout=300"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", args[0], err, bytes.TrimSpace(out))
	}
	return nil
}
