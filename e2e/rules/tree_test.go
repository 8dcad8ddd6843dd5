package rules

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module is the prefix of every module path of the workspace.
const module = "github.com/slotwise/slotwise/"

// tree is a set of files: slash-separated path from the root to content.
type tree map[string]string

// repository returns the files that git tracks or would track. Those of the last commit alone
// would not do: a rule has to speak before the commit.
func repository(t *testing.T) tree {
	t.Helper()
	dir := root(t)
	files := tree{}
	for name := range strings.SplitSeq(git(t, dir, "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		content, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case name == "", errors.Is(err, fs.ErrNotExist): // the list ends with a separator; deleted, not yet committed
		case err != nil:
			t.Fatalf("read the repository: %v", err)
		default:
			files[name] = string(content)
		}
	}
	return files
}

// root returns the folder of go.work.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.work here or above")
		}
		dir = filepath.Dir(dir)
	}
}

// git runs git in dir and returns what it printed.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, exit.Stderr)
	} else if err != nil {
		t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// paths returns the paths whose base name matches the pattern of [path.Match], in order.
func (files tree) paths(pattern string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool {
		match, err := path.Match(pattern, path.Base(name))
		return err != nil || !match
	})
}

// source is one parsed Go file.
type source struct {
	*ast.File
	path string
	set  *token.FileSet
}

// sources parses every Go file, whatever its build tags. A file that does not parse has no
// syntax tree to judge; the compiler tells about it.
func (files tree) sources() []source {
	var parsed []source
	for _, name := range files.paths("*.go") {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, files[name], parser.ParseComments|parser.SkipObjectResolution)
		if err == nil {
			parsed = append(parsed, source{File: file, path: name, set: set})
		}
	}
	return parsed
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// at formats a finding about the node of s.
func (s source) at(node ast.Node, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: ", s.path, s.set.Position(node.Pos()).Line) + fmt.Sprintf(format, args...)
}

// lines calls visit for each line of content, counted from 1.
func lines(content string, visit func(n int, line string)) {
	n := 0
	for line := range strings.Lines(content) {
		n++
		visit(n, strings.TrimRight(line, "\r\n"))
	}
}
