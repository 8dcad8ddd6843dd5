package rules

import (
	"fmt"
	"go/ast"
	"iter"
	"path"
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

// Put together, so that this file does not break the rules that it tests.
var (
	foreign = []string{
		"pro" + "xy.golang.org", "su" + "m.golang.org", "de" + "b.debian.org", "secur" + "ity.debian.org",
		"arch" + "ive.ubuntu.com", "registry.np" + "mjs.", "registry-1.dock" + "er.io", "py" + "pi.org", "index.crat" + "es.io",
		"/wo" + "rk/", "/ro" + "ot/", "/fa" + "rm/", "/ho" + "me/", "/Us" + "ers/", "/t" + "mp/",
	}
	later = []string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"}
)

// places: where packages come from and where a checkout lies is each machine's own matter.
func places(files tree) []string {
	return files.mentions(foreign, func(name string) bool { return path.Ext(name) == ".sum" })
}

// putOff: what is left to do is an issue, not a note in the code.
func putOff(files tree) []string {
	return files.mentions(later, func(name string) bool { return path.Ext(name) == ".md" })
}

// mentions returns where the words begin, but for those that end a longer word or path, in files
// that are text and not left out.
func (files tree) mentions(words []string, leftOut func(name string) bool) []string {
	var found []string
	for name, content := range files {
		if leftOut(name) || strings.ContainsRune(content, 0) {
			continue
		}
		for _, word := range words {
			for at := range indexes(content, word) {
				if at == 0 || !strings.ContainsAny(content[at-1:at], wordEnds) {
					line := 1 + strings.Count(content[:at], "\n")
					found = append(found, fmt.Sprintf("%s:%d: %s", name, line, word))
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

// wordEnds are the bytes that a word of [tree.mentions] must not follow.
const wordEnds = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

// indexes returns where word begins in content.
func indexes(content, word string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for from := 0; ; {
			i := strings.Index(content[from:], word)
			if i < 0 || !yield(from+i) {
				return
			}
			from += i + len(word)
		}
	}
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
