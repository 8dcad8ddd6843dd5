package rules

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"
)

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	link       = regexp.MustCompile(`\]\(([^)\s]+)[^)]*\)|^\[[^\]]+\]:\s+(\S+)`)
	linkText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	scheme     = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
)

// links: a link from one document to a file, folder or heading of this repository leads there.
func links(files tree) []string {
	var found []string
	for _, name := range files.paths("*.md") {
		prose(files[name], func(n int, line string) {
			for _, match := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, ""), -1) {
				target := match[1] + match[2]
				if !scheme.MatchString(target) && !leads(files, name, target) {
					found = append(found, fmt.Sprintf("%s:%d: %s leads nowhere", name, n, target))
				}
			}
		})
	}
	return found
}

// prose visits the lines outside fenced code.
func prose(document string, visit func(n int, line string)) {
	fenced := false
	lines(document, func(n int, line string) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if !fenced {
			visit(n, line)
		}
	})
}

// leads tells whether target, as written in the document from, exists.
func leads(files tree, from, target string) bool {
	to, anchor, _ := strings.Cut(target, "#")
	if to == "" {
		to = from
	} else {
		to = path.Join(path.Dir(from), to)
	}
	document, isFile := files[to]
	if anchor != "" && path.Ext(to) == ".md" {
		return isFile && headings(document)[anchor]
	}
	return isFile || files.hasFolder(to)
}

// headings returns the anchors of a document's headings, as code hosts make them: small letters,
// hyphens for spaces, no punctuation, and -1, -2 … for repeats.
func headings(document string) map[string]bool {
	anchors := map[string]bool{}
	repeats := map[string]int{}
	prose(document, func(_ int, line string) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			return
		}
		anchor := strings.Map(anchorRune, strings.ToLower(strings.TrimSpace(linkText.ReplaceAllString(title, "$1"))))
		if n := repeats[anchor]; n > 0 {
			anchors[fmt.Sprintf("%s-%d", anchor, n)] = true
		} else {
			anchors[anchor] = true
		}
		repeats[anchor]++
	})
	return anchors
}

func anchorRune(r rune) rune {
	switch {
	case r == ' ':
		return '-'
	case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
		return r
	default:
		return -1
	}
}

// hasFolder tells whether a file lies somewhere below dir.
func (files tree) hasFolder(dir string) bool {
	for name := range files {
		if strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}
