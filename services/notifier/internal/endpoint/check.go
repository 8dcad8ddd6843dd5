package endpoint

import (
	"errors"
	"fmt"
	"net/mail"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/slotwise/slotwise/pkg/event"
	"github.com/slotwise/slotwise/pkg/web"
	"github.com/slotwise/slotwise/services/notifier/internal/webhook"
)

// Bounds of what an endpoint may be, as migration 0004 has them.
const (
	maxDescription = 500 // characters
	maxOwner       = 254 // bytes: RFC 5321 §4.5.3.1.3
	maxResources   = 1000
	maxConcurrency = 64
	maxRate        = 10_000
)

// InvalidError tells what is wrong with settings.
type InvalidError struct{ Faults []web.FieldError }

// Error names the fields and what is wrong with them. Of their values it repeats the one of a
// list that is wrong, shortened, and no other.
func (e *InvalidError) Error() string {
	parts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		parts[i] = f.Field + " " + f.Detail
	}
	return strings.Join(parts, "; ")
}

// Settings are what an endpoint is made from and what may be changed later.
type Settings struct {
	URL         string
	Description string
	Owner       string   // empty: nobody is told
	EventTypes  []string // nil: all
	Resources   []string // nil: all
	Concurrency int
	Rate        *int // nil: no limit
}

// resourceForm is what the booking service gives resources for ids.
var resourceForm = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

// check returns everything that is wrong with s.
func (s Settings) check(rules webhook.Rules) (faults []web.FieldError) {
	add := func(field, detail string) {
		if detail != "" {
			faults = append(faults, web.FieldError{Field: field, Detail: detail})
		}
	}
	add("url", urlFault(s.URL, rules))
	add("description", descriptionFault(s.Description))
	add("owner", ownerFault(s.Owner))
	add("event_types", listFault(s.EventTypes, len(event.Types), func(t string) bool { return slices.Contains(event.Types, event.Type(t)) }, "one of "+typeNames()))
	add("resources", listFault(s.Resources, maxResources, resourceForm.MatchString, "the id of a resource"))
	add("concurrency", rangeFault(s.Concurrency, maxConcurrency))
	if s.Rate != nil {
		add("rate", rangeFault(*s.Rate, maxRate))
	}
	return faults
}

func urlFault(raw string, rules webhook.Rules) string {
	err := webhook.CheckURL(raw, rules)
	if err == nil {
		return ""
	}
	if refused, ok := errors.AsType[*webhook.URLError](err); ok {
		return strings.TrimPrefix(refused.Reason, "it ")
	}
	return "is not allowed"
}

func descriptionFault(s string) string {
	switch {
	case utf8.RuneCountInString(s) > maxDescription:
		return fmt.Sprintf("must have at most %d characters", maxDescription)
	case strings.ContainsFunc(s, unicode.IsControl):
		return "must not have control characters"
	}
	return ""
}

// ownerFault wants an address in the one form in which SMTP and a header write it alike.
func ownerFault(s string) string {
	if s == "" {
		return ""
	}
	parsed, err := mail.ParseAddress("<" + s + ">")
	if err != nil || parsed.String() != "<"+s+">" || len(s) > maxOwner || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "must be a mail address in ASCII, such as anna@example.org"
	}
	return ""
}

func listFault(list []string, most int, ok func(string) bool, what string) string {
	switch {
	case list == nil:
		return ""
	case len(list) == 0:
		return "must name at least one; null stands for all"
	case len(list) > most:
		return fmt.Sprintf("must name at most %d", most)
	}
	seen := map[string]bool{}
	for _, one := range list {
		if !ok(one) {
			return "has " + quoted(one) + ", which is not " + what
		}
		if seen[one] {
			return "must name each once"
		}
		seen[one] = true
	}
	return ""
}

// typeNames lists the types of events.
func typeNames() string {
	names := make([]string, len(event.Types))
	for i, t := range event.Types {
		names[i] = string(t)
	}
	return strings.Join(names, ", ")
}

// maxQuoted is how many characters of a wrong value are repeated.
const maxQuoted = 64

func quoted(s string) string {
	if runes := []rune(s); len(runes) > maxQuoted {
		s = string(runes[:maxQuoted]) + "…"
	}
	return strconv.Quote(s)
}

func rangeFault(n, most int) string {
	if n < 1 || n > most {
		return fmt.Sprintf("must be 1 to %d", most)
	}
	return ""
}
