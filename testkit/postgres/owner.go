package postgres

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// owner is the user who runs the server and owns its data: ourselves, or, because PostgreSQL
// refuses root, postgres or nobody.
type owner struct {
	name     string
	uid, gid int
	other    bool // not ourselves
}

func (o owner) String() string { return "user " + o.name }

func dataOwner() (owner, error) {
	if os.Geteuid() != 0 {
		return owner{name: strconv.Itoa(os.Geteuid()), uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil {
			return owner{name: name, uid: uid, gid: gid, other: true}, nil
		}
	}
	return owner{}, fmt.Errorf("%w: PostgreSQL refuses root, and there is no user postgres or nobody", errUnavailable)
}

// own gives a path to the owner.
func (o owner) own(path string) error {
	if !o.other {
		return nil
	}
	if err := os.Chown(path, o.uid, o.gid); err != nil {
		return fmt.Errorf("give %s to %s: %w", path, o, err)
	}
	return nil
}

// attributes make a process run as the owner. When dir lies below a folder that only root may
// enter (a clone in /root), the process may look into folders all the same.
func (o owner) attributes(dir string) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if !o.other {
		return attr
	}
	attr.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}
	if !o.reaches(dir) {
		mayEnterFolders(attr)
	}
	return attr
}

// reaches reports whether the owner may enter all folders above dir.
func (o owner) reaches(dir string) bool {
	for dir = filepath.Dir(dir); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err == nil && info.Mode().Perm()&0o001 == 0 {
			if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != o.uid {
				return false
			}
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}
