package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// packageComments: every package has exactly one package comment, which starts with the
// package's name; a program's starts as it likes. The files of a package that is more than
// tests are asked without its tests.
func packageComments(files tree) []string {
	type pkg struct{ dir, name string }
	code, tests := map[pkg][]source{}, map[pkg][]source{}
	for _, s := range files.sources() {
		p := pkg{path.Dir(s.path), strings.TrimSuffix(s.Name.Name, "_test")}
		if s.isTest() {
			tests[p] = append(tests[p], s)
		} else {
			code[p] = append(code[p], s)
		}
	}
	for p, sources := range tests {
		if code[p] == nil {
			code[p] = sources
		}
	}

	var found []string
	for p, sources := range code {
		commented := slices.DeleteFunc(sources, func(s source) bool { return s.Doc == nil })
		if len(commented) != 1 {
			found = append(found, fmt.Sprintf("%s: package %s has %d package comments, wanted 1", p.dir, p.name, len(commented)))
			continue
		}
		s, want := commented[0], "Package "+p.name
		if text := s.Doc.Text(); p.name != "main" && !strings.HasPrefix(text, want+" ") {
			first, _, _ := strings.Cut(text, " ")
			found = append(found, s.at(s.Doc, "the comment of package %s starts with %q, wanted %q", p.name, first, want))
		}
	}
	slices.Sort(found)
	return found
}
