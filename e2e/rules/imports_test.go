package rules

import (
	"errors"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// directions says what the code of a part may import of this repository, itself aside. What is
// missing here imports nothing of it.
var directions = map[string]struct{ code, tests []string }{
	"pkg":                {},
	"testkit":            {code: []string{"pkg"}},
	"services/booking":   {code: []string{"pkg"}, tests: []string{"testkit"}},
	"services/relay":     {code: []string{"pkg"}, tests: []string{"testkit"}},
	"services/notifier":  {code: []string{"pkg"}, tests: []string{"testkit"}},
	"services/scheduler": {code: []string{"pkg"}, tests: []string{"testkit"}},
	"ops":                {code: []string{"pkg"}, tests: []string{"testkit"}},
	"e2e":                {code: []string{"pkg", "testkit"}},
}

// pure lists the packages whose code needs the standard library alone, each with what else it
// may import: the contract that every consumer links, and the domain.
var pure = map[string][]string{
	"pkg/event":                         {"pkg/id"},
	"pkg/id":                            nil,
	"services/booking/internal/booking": nil,
}

// onlyForTests lists modules that what ships must not link.
var onlyForTests = []string{"github.com/nats-io/nats-server/", "github.com/ory/dockertest/"}

// banned lists modules that nobody imports.
var banned = []string{"github.com/stretchr/testify/"}

// importDirections: pkg knows only pkg, services never know each other, what ships links no
// test code.
func importDirections(files tree) []string {
	var found []string
	for _, s := range files.sources() {
		from := part(s.path)
		for _, spec := range s.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue // the parser has taken it; it can be unquoted
			}
			local, ours := strings.CutPrefix(target, module)
			switch {
			case hasAnyPrefix(target, banned):
				found = append(found, s.at(spec, "nobody imports %s", target))
			case ours && !mayImport(from, part(local), s.isTest()),
				!s.isTest() && ships(from) && hasAnyPrefix(target, onlyForTests):
				found = append(found, s.at(spec, "%s must not import %s", from, local))
			case !s.isTest() && !mayImportPure(path.Dir(s.path), local, target):
				found = append(found, s.at(spec, "%s must not import %s", path.Dir(s.path), local))
			}
		}
	}
	slices.Sort(found)
	return found
}

// part returns the module's folder that a path lies in.
func part(name string) string {
	first, rest, _ := strings.Cut(name, "/")
	if first != "services" {
		return first
	}
	second, _, _ := strings.Cut(rest, "/")
	return path.Join(first, second)
}

func mayImport(from, to string, test bool) bool {
	allowed := directions[from]
	return from == to || slices.Contains(allowed.code, to) || test && slices.Contains(allowed.tests, to)
}

func mayImportPure(dir, local, target string) bool {
	allowed, ok := pure[dir]
	first, _, _ := strings.Cut(target, "/")
	isStandard := !strings.Contains(first, ".")
	return !ok || isStandard || slices.Contains(allowed, local)
}

// ships tells whether a part is built into an image or handed to operators.
func ships(part string) bool { return part == "ops" || strings.HasPrefix(part, "services/") }

func hasAnyPrefix(s string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// TestShippedPrograms asks the go command what each shipped program links, through
// dependencies too and as images are built: from its own go.mod.
func TestShippedPrograms(t *testing.T) {
	forbidden := slices.Concat(banned, onlyForTests)
	for from := range directions {
		if !ships(from) {
			continue
		}
		t.Run(from, func(t *testing.T) {
			for _, dep := range dependencies(t, filepath.Join(root(t), from)) {
				local, ours := strings.CutPrefix(dep, module)
				if ours && !mayImport(from, part(local), false) || hasAnyPrefix(dep, forbidden) {
					t.Errorf("%s links %s", from, local)
				}
			}
		})
	}
}

// dependencies returns the packages outside the standard library that the programs of the module
// in dir link.
func dependencies(t *testing.T, dir string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./cmd/...")
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("%v: %s", err, exit.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}
