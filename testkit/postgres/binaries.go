package postgres

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// distributionBins is where Debian and Ubuntu put the server's programs.
const distributionBins = "/usr/lib/postgresql/*/bin"

// binaries is a folder with initdb and postgres of one version.
type binaries struct {
	dir   string
	major int
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// findBinaries lists the folders with a server: those on PATH, in its order, then those of the
// distribution, newest first. A folder counts when it has initdb: a lone postgres or psql is a wrapper.
func findBinaries(ctx context.Context) []binaries {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	places, _ := filepath.Glob(distributionBins) // the pattern is valid
	slices.SortFunc(places, func(a, b string) int { return majorOf(b) - majorOf(a) })
	var found []binaries
	for _, dir := range append(dirs, places...) {
		initdb, err := filepath.EvalSymlinks(filepath.Join(dir, "initdb"))
		if err != nil {
			continue
		}
		dir = filepath.Dir(initdb)
		if slices.ContainsFunc(found, func(b binaries) bool { return b.dir == dir }) {
			continue
		}
		out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
		if m := versionLine.FindSubmatch(out); err == nil && m != nil {
			major, _ := strconv.Atoi(string(m[1])) // digits
			found = append(found, binaries{dir: dir, major: major})
		}
	}
	return found
}

// majorOf returns the version in /usr/lib/postgresql/<version>/bin; 0 when it is none.
func majorOf(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin))) // 0 sorts last
	return n
}

// choose picks the binaries for a data folder: the version that made it, else the first
// that is new enough.
func choose(found []binaries, dir string) (binaries, error) {
	made, err := os.ReadFile(filepath.Join(dir, "PG_VERSION"))
	want := string(bytes.TrimSpace(made))
	var have []string
	for _, b := range found {
		if err == nil && strconv.Itoa(b.major) == want || err != nil && b.major >= oldest {
			return b, nil
		}
		have = append(have, fmt.Sprintf("%d in %s", b.major, b.dir))
	}
	switch {
	case len(have) == 0:
		return binaries{}, fmt.Errorf("%w: no folder with initdb", errUnavailable)
	case err == nil:
		return binaries{}, fmt.Errorf("%s was made by PostgreSQL %s, there is only %s", dir, want, strings.Join(have, ", "))
	}
	return binaries{}, fmt.Errorf("%w: too old, %s", errUnavailable, strings.Join(have, ", "))
}
