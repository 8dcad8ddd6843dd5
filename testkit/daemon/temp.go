package daemon

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// room is what a server's data may need: the memory file system of a container often has 64 MB.
const room = 2 << 30

// TempDir makes a temporary folder of the user's, in memory where that has room.
func TempDir(u User, prefix string) (string, error) {
	parent := "/dev/shm"
	var fs unix.Statfs_t
	if err := unix.Statfs(parent, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < room {
		parent = os.TempDir()
	}
	dir, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return "", fmt.Errorf("make a temporary folder: %w", err)
	}
	if err := u.Own(dir); err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	return dir, nil
}
