package rules

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

const maxLines = 450

// longFiles may be longer than maxLines; each has its reason beside it.
var longFiles = map[string]bool{}

// shortFiles: code that is no test has at most maxLines lines a file.
func shortFiles(files tree) []string {
	var found []string
	for _, name := range files.paths("*.go") {
		n := strings.Count(files[name], "\n")
		if n > maxLines && !strings.HasSuffix(name, "_test.go") && !longFiles[name] {
			found = append(found, fmt.Sprintf("%s: %d lines, at most %d", name, n, maxLines))
		}
	}
	return found
}

// In these patterns one letter stands in brackets, so that they do not match themselves.
var (
	host = regexp.MustCompile(`(prox[y]|su[m])\.golang\.org|(de[b]|securit[y])\.debian\.org|(archiv[e]|securit[y])\.ubuntu\.com|` +
		`registry\.npm[j]s\.\w+|registry-1\.dock[e]r\.io|pyp[i]\.org|index\.crate[s]\.io`)
	machine = regexp.MustCompile(`(?:^|[^\w.-])(/(?:wor[k]|roo[t]|far[m]|hom[e]/\w+|User[s]/\w+)/|/tm[p]/\w+)`)
	later   = regexp.MustCompile(`(?:^|[^.\w])(TO[D]O|FIX[M]E|XX[X]|HAC[K])\b`)
)

// places: where packages come from and where a checkout lies is each machine's own matter.
func places(files tree) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.ContainsRune(files[name], 0) {
			continue // no text
		}
		lines(files[name], func(n int, line string) {
			for _, place := range host.FindAllString(line, -1) {
				found = append(found, fmt.Sprintf("%s:%d: %s", name, n, place))
			}
			for _, place := range machine.FindAllStringSubmatch(line, -1) {
				found = append(found, fmt.Sprintf("%s:%d: %s", name, n, place[1]))
			}
		})
	}
	return found
}

// putOff: what is left to do is an issue, not a note in the code.
func putOff(files tree) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) == ".md" {
			continue
		}
		lines(files[name], func(n int, line string) {
			if word := later.FindStringSubmatch(line); word != nil {
				found = append(found, fmt.Sprintf("%s:%d: %s", name, n, word[1]))
			}
		})
	}
	return found
}

// noSkips: a test that can't get what it needs fails and names the ways to get it.
func noSkips(files tree) []string {
	var found []string
	for _, s := range files.sources() {
		if !s.isTest() && !slices.ContainsFunc(s.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` }) {
			continue
		}
		for node := range ast.Preorder(s.File) {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				continue
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, method.Sel.Name) {
				found = append(found, s.at(method, "%s", method.Sel.Name))
			}
		}
	}
	return found
}
