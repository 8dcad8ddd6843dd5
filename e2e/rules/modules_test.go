package rules

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	goLine     = regexp.MustCompile(`(?m)^go (\S+)$`)
	useLine    = regexp.MustCompile(`(?m)^(?:use)?\s+\./(\S+)$`)
	threeParts = regexp.MustCompile(`^\d+\.\d+\.\d+$`)
)

// outside is the module that go.work leaves out on purpose.
const outside = "tools"

// workspace: go.work joins every module, and all say one go version, in three parts (go.work
// with "1.26" and a go.mod with "1.26.0" is an error of the go command).
func workspace(files tree) []string {
	var found []string
	version := goVersion(files["go.work"])
	if !threeParts.MatchString(version) {
		found = append(found, fmt.Sprintf("go.work: \"go %s\" has not three parts", version))
	}
	var used []string
	for _, use := range useLine.FindAllStringSubmatch(files["go.work"], -1) {
		used = append(used, use[1])
		if _, ok := files[path.Join(use[1], "go.mod")]; !ok {
			found = append(found, fmt.Sprintf("go.work: uses %s, which has no go.mod", use[1]))
		}
	}
	for _, name := range files.paths("go.mod") {
		if dir := path.Dir(name); dir != outside && !slices.Contains(used, dir) {
			found = append(found, name+": is not in go.work")
		}
		if got := goVersion(files[name]); got != version {
			found = append(found, fmt.Sprintf("%s: says \"go %s\", go.work \"go %s\"", name, got, version))
		}
	}
	slices.Sort(found)
	return found
}

func goVersion(mod string) string {
	if match := goLine.FindStringSubmatch(mod); match != nil {
		return match[1]
	}
	return ""
}

// requirement is one line of a go.mod.
type requirement struct {
	path, version string
	indirect      bool
}

// requirements returns what a go.mod requires from outside this repository.
func requirements(mod string) []requirement {
	var all []requirement
	lines(mod, func(_ int, line string) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) >= 2 && strings.HasPrefix(fields[1], "v") && !strings.HasPrefix(fields[0], module) {
			all = append(all, requirement{fields[0], fields[1], strings.HasSuffix(line, "// indirect")})
		}
	})
	return all
}

// oneVersion: the workspace tests the highest version of a dependency, an image gets its own
// module's; only when they are equal is what was tested what ships.
func oneVersion(files tree) []string {
	type first struct{ mod, version string }
	var found []string
	seen := map[string]first{}
	for _, name := range files.paths("go.mod") {
		if path.Dir(name) == outside {
			continue
		}
		for _, r := range requirements(files[name]) {
			if f, ok := seen[r.path]; !ok {
				seen[r.path] = first{name, r.version}
			} else if f.version != r.version {
				found = append(found, fmt.Sprintf("%s: has %s %s, %s %s: make tidy", name, r.path, r.version, f.mod, f.version))
			}
		}
	}
	return found
}

// accountedFor: somebody wrote down what each direct dependency is for.
func accountedFor(files tree) []string {
	const list = "docs/decisions/dependencies.md"
	var found []string
	for _, name := range files.paths("go.mod") {
		if path.Dir(name) == outside {
			continue
		}
		for _, r := range requirements(files[name]) {
			if !r.indirect && !strings.Contains(files[list], "| "+r.path+" |") {
				found = append(found, fmt.Sprintf("%s: %s is not in %s", name, r.path, list))
			}
		}
	}
	return found
}
