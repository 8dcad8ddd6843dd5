package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// User runs a server and owns its files: ourselves, or, for servers that refuse root, another.
type User struct {
	name     string
	uid, gid int
	other    bool
}

// NotRoot returns ourselves, unless we are root: then the user postgres, else nobody.
func NotRoot() (User, error) {
	if os.Geteuid() != 0 {
		return User{name: strconv.Itoa(os.Geteuid()), uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(u.Uid)
		gid, gidErr := strconv.Atoi(u.Gid)
		if uidErr == nil && gidErr == nil {
			return User{name: name, uid: uid, gid: gid, other: true}, nil
		}
	}
	return User{}, errors.New("root may not run it, and there is no user postgres or nobody")
}

// Own gives a path to the user.
func (u User) Own(path string) error {
	if !u.other {
		return nil
	}
	if err := os.Chown(path, u.uid, u.gid); err != nil {
		return fmt.Errorf("give %s to user %s: %w", path, u.name, err)
	}
	return nil
}

// attributes make a process run as the user.
func (u User) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C goes to the starter only
	if u.other {
		attr.Credential = &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.gid)} //nolint:gosec // ids of the system
	}
	return attr
}
