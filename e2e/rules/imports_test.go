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

// closed lists the packages whose code needs little: the standard library and what stands here.
var closed = map[string][]string{
	"pkg/event":                         {"pkg/id"}, // with pkg/id the contract that every consumer links
	"pkg/id":                            nil,
	"services/booking/internal/booking": nil, // the domain: values in, values out
}

// apart lists what packages of one service must not know: they meet in cmd. A transaction and its
// SQL are the store's matter, a status code the api's, and app names what it needs of others.
var apart = map[string][]string{
	"services/booking/internal/app": {
		"services/booking/internal/store", "services/booking/internal/api", "services/booking/internal/page", "github.com/jackc/pgx/",
	},
	"services/booking/internal/api":   {"services/booking/internal/store", "github.com/jackc/pgx/"},
	"services/booking/internal/page":  {"services/booking/internal/store", "github.com/jackc/pgx/"},
	"services/booking/internal/store": {"services/booking/internal/api", "services/booking/internal/page"},
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
		for _, spec := range s.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue // the parser took it, so it has its quotes
			}
			if reason := forbidden(s, target); reason != "" {
				found = append(found, s.at(spec, "%s", reason))
			}
		}
	}
	slices.Sort(found)
	return found
}

// forbidden says why s must not import target, or nothing.
func forbidden(s source, target string) string {
	dir, from := path.Dir(s.path), part(s.path)
	local, ours := strings.CutPrefix(target, module)
	only, isClosed := closed[dir]
	switch {
	case hasAnyPrefix(target, banned):
		return "nobody imports " + target
	case ours && !mayImport(from, part(local), s.isTest()),
		!s.isTest() && ships(from) && hasAnyPrefix(target, onlyForTests):
		return from + " must not import " + local
	case !s.isTest() && isClosed && !isStandard(target) && !slices.Contains(only, local),
		!s.isTest() && hasAnyPrefix(local, apart[dir]):
		return dir + " must not import " + local
	}
	return ""
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

func isStandard(target string) bool {
	first, _, _ := strings.Cut(target, "/")
	return !strings.Contains(first, ".")
}

// ships tells whether a part is built into an image or handed to operators.
func ships(part string) bool { return part == "ops" || strings.HasPrefix(part, "services/") }

func hasAnyPrefix(s string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// TestShippedPrograms asks the go command what each shipped program links, through
// dependencies too and as images are built: from its own go.mod.
func TestShippedPrograms(t *testing.T) {
	testOnly := slices.Concat(banned, onlyForTests)
	for from := range directions {
		if !ships(from) {
			continue
		}
		t.Run(from, func(t *testing.T) {
			for _, dep := range dependencies(t, filepath.Join(root(t), from)) {
				local, ours := strings.CutPrefix(dep, module)
				if ours && !mayImport(from, part(local), false) || hasAnyPrefix(dep, testOnly) {
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
