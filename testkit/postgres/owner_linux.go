package postgres

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// mayEnterFolders lets a process that is not root's enter and read all folders. A container's
// root often has only the wider of the two capabilities.
func mayEnterFolders(attr *syscall.SysProcAttr) {
	var have [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &have[0]); err != nil {
		return // the start's error will name the folder
	}
	for _, capability := range []uintptr{unix.CAP_DAC_READ_SEARCH, unix.CAP_DAC_OVERRIDE} {
		if have[0].Permitted&(1<<capability) != 0 {
			attr.AmbientCaps = []uintptr{capability}
			return
		}
	}
}

// roomForData is what a temporary data folder in memory may need: containers often get 64 MB.
const roomForData = 2 << 30

// temporaryDir makes a folder of the owner's, in memory where that has room.
func temporaryDir(o owner) (string, error) {
	parent := "/dev/shm"
	var fs unix.Statfs_t
	if err := unix.Statfs(parent, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < roomForData {
		parent = os.TempDir()
	}
	dir, err := os.MkdirTemp(parent, "slotwise-postgres-")
	if err != nil {
		return "", fmt.Errorf("make a temporary folder: %w", err)
	}
	if err := o.own(dir); err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	return dir, nil
}
