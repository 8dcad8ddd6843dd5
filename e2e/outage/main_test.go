// Package outage takes away what the services stand on, one by one, while the real programs
// run: a disk that is full, a database that is frozen or restarts, a stream that takes no
// more, a pooler in between. Bookings that were answered 201 lose nothing, others are told
// when to come back, and everything goes on by itself.
package outage

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// inNamespace is set for a test binary that runs in namespaces of its own.
const inNamespace = "OUTAGE_IN_NAMESPACE"

// TestMain runs the tests in a mount namespace of their own: a disk goes with them, even when
// they are killed. Who may not mount gets a user namespace too. Where neither is allowed the
// test of the disk fails and says so.
func TestMain(m *testing.M) {
	if _, inside := os.LookupEnv(inNamespace); !inside {
		if code, ran := runInNamespace(); ran {
			os.Exit(code)
		}
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "5") // they wait more than they work; the flag is there
	os.Exit(m.Run())
}

// runInNamespace runs this test binary again, as the same user with the right to mount.
func runInNamespace() (code int, ran bool) {
	cmd := exec.Command(os.Args[0], os.Args[1:]...) //nolint:noctx // it ends as its tests do
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if mayMount() != nil {
		ownUsers(cmd.SysProcAttr)
	}
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), true
	}
	return 0, err == nil
}

// ownUsers gives a process a user namespace with the users of this one, and rights in it.
func ownUsers(attr *syscall.SysProcAttr) {
	uid, gid, ids := os.Getuid(), os.Getgid(), 1
	if uid == 0 {
		ids = 1 << 16 // servers that refuse root run as others
	}
	attr.Cloneflags = syscall.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: ids}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: ids}}
	attr.GidMappingsEnableSetgroups = uid == 0
	attr.AmbientCaps = []uintptr{capSysAdmin}
}

const capSysAdmin = 21

// mayMount reports why this process may not mount a file system.
func mayMount() error {
	dir, err := os.MkdirTemp("", "slotwise-mount-")
	if err != nil {
		return err
	}
	defer os.Remove(dir) //nolint:errcheck // an empty folder
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		return fmt.Errorf("mount a tmpfs: %w", err)
	}
	return syscall.Unmount(dir, 0)
}

// smallDisk returns a folder with a file system of its own. It can be entered by all users.
func smallDisk(t *testing.T, megabytes int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "slotwise-disk-") //nolint:usetesting // PostgreSQL's user must reach it
	if err != nil {
		t.Fatal(err)
	}
	err = syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0755", megabytes))
	if err != nil {
		os.Remove(dir) //nolint:errcheck // an empty folder
		t.Fatalf("mount a small disk: %v: this test needs root with CAP_SYS_ADMIN, or user namespaces for everybody", err)
	}
	t.Cleanup(func() {
		if err := errors.Join(syscall.Unmount(dir, syscall.MNT_DETACH), os.Remove(dir)); err != nil {
			t.Errorf("remove the small disk: %v", err)
		}
	})
	return dir
}
