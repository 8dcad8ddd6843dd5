// Package checkout finds the files of this repository that a test reads as they are on disk:
// roles, migrations, nats.conf.
package checkout

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Root returns the repository's folder: the nearest one with a go.work, upward from the
// working folder, which for a test is its package's.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		switch _, err := os.Stat(filepath.Join(dir, "go.work")); {
		case err == nil:
			return dir, nil
		case dir == filepath.Dir(dir):
			return "", errors.New("find the repository: no go.work above the working folder")
		}
	}
}
