package web

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Match is what If-Match says (RFC 9110 §13.1.1).
type Match struct {
	Given bool // else it is not there, and holds for nothing
	any   bool
	tags  []string // strong entity tags, without quotes
}

// MatchOnly is the If-Match of one strong entity tag, given without quotes.
func MatchOnly(tag string) Match { return Match{Given: true, tags: []string{tag}} }

// Holds reports whether what has this strong entity tag, given without quotes, is what the client
// means.
func (m Match) Holds(tag string) bool { return m.any || slices.Contains(m.tags, tag) }

// entityTag is RFC 9110 §8.8.3, with the comma or the end that follows it in a list.
var entityTag = regexp.MustCompile(`^(W/)?"([!#-~\x80-\xff]*)"[ \t]*(?:,[ \t,]*|$)`)

// ReadMatch reads If-Match, or says what is wrong with it. The comparison is strong: a weak tag
// is well formed and matches nothing.
func ReadMatch(r *http.Request) (m Match, fault string) {
	values := r.Header.Values("If-Match")
	if len(values) == 0 {
		return Match{}, ""
	}
	rest := strings.Trim(strings.Join(values, ","), " \t,")
	if rest == "*" {
		return Match{Given: true, any: true}, ""
	}
	m.Given = true
	for rest != "" {
		tag := entityTag.FindStringSubmatch(rest)
		if tag == nil {
			break
		}
		if tag[1] == "" {
			m.tags = append(m.tags, tag[2])
		}
		rest = rest[len(tag[0]):]
		if rest == "" {
			return m, ""
		}
	}
	return Match{}, `must be * or entity tags, such as "3"`
}
