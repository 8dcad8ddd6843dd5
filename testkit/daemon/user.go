package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
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

// ID is the user's and the group's number, as Docker takes them: uid:gid.
func (u User) ID() string { return fmt.Sprintf("%d:%d", u.uid, u.gid) }

// Attributes make a process run as the user. When dir, its own folder, lies below one that only
// root may enter (a clone in /root), the process may look into all folders. "" is no folder.
func (u User) Attributes(dir string) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C goes to the starter only
	if !u.other {
		return attr
	}
	attr.Credential = &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.gid)} //nolint:gosec // ids of the system
	if dir != "" && !u.reaches(dir) {
		mayEnterFolders(attr)
	}
	return attr
}

// reaches reports whether the user may enter all folders above dir.
func (u User) reaches(dir string) bool {
	for dir = filepath.Dir(dir); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err == nil && info.Mode().Perm()&0o001 == 0 {
			if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != u.uid {
				return false
			}
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

func (u User) String() string { return "user " + u.name }
