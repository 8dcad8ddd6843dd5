// Package config reads a service's settings from its environment, collects every mistake
// so that they are reported at once, and lists the settings for --help. A secret's value
// never appears in an error, in the help or in the log.
package config

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"go.uber.org/zap"
)

// Version is what --version prints. The build sets it with -ldflags -X; a binary that was
// built without them tells the version control's revision.
var Version = ""

// Reader reads settings one by one. Each method returns the setting, or its default when it
// is unset or empty, or notes a mistake that [Reader.Err] reports.
type Reader struct {
	program  string
	commands string
	getenv   func(string) string
	settings []setting
	mistakes []error
}

type setting struct {
	name, fallback, about string
	value                 string // as shown in a log; masked when secret
}

// New returns a reader for the program of that name; getenv is os.Getenv, or a test's own.
func New(program string, getenv func(string) string) *Reader {
	return &Reader{program: program, getenv: getenv}
}

// Commands sets what --help says of the program's arguments.
func (r *Reader) Commands(text string) { r.commands = text }

// String reads a setting that is any text. An empty fallback means that it may be unset.
func (r *Reader) String(name, fallback, about string) string {
	value := r.lookup(name, fallback)
	r.note(name, fallback, about, value)
	return value
}

// Required reads a setting that has no default and must be set.
func (r *Reader) Required(name, about string) string {
	value := r.lookup(name, "")
	r.note(name, "required", about, value)
	if value == "" {
		r.Mistake(name, "is required")
	}
	return value
}

// Secret reads a setting whose value must not be shown: a password, a key.
func (r *Reader) Secret(name, about string) string {
	value := r.lookup(name, "")
	shown := ""
	if value != "" {
		shown = "***"
	}
	r.note(name, "", about, shown)
	return value
}

// URL reads a URL that may hold a password, which is masked. An empty fallback makes it
// required. A URL that can't be parsed is reported without its text.
func (r *Reader) URL(name, fallback, about string, schemes ...string) *url.URL {
	return r.URLs(name, fallback, about, schemes...)[0]
}

// URLs reads one or more URLs, separated by commas, each as [Reader.URL] does. It returns
// at least one, which is empty when there is a mistake.
func (r *Reader) URLs(name, fallback, about string, schemes ...string) []*url.URL {
	value := r.lookup(name, fallback)
	if value == "" {
		r.note(name, "required", about, "")
		r.Mistake(name, "is required")
		return []*url.URL{{}}
	}
	var all []*url.URL
	var shown []string
	for text := range strings.SplitSeq(value, ",") {
		parsed, err := url.Parse(strings.TrimSpace(text))
		switch {
		case err != nil || parsed.Host == "":
			r.Mistake(name, "is no URL with a host; special characters in a password must be percent-encoded")
			parsed = &url.URL{}
		case !slices.Contains(schemes, parsed.Scheme):
			r.Mistake(name, "must begin with "+strings.Join(schemes, ":// or ")+"://")
		}
		all, shown = append(all, parsed), append(shown, parsed.Redacted())
	}
	r.note(name, fallback, about, strings.Join(shown, ","))
	return all
}

// Duration reads a duration as Go writes them ("90s", "24h") that lies within [low, high].
func (r *Reader) Duration(name string, fallback, low, high time.Duration, about string) time.Duration {
	text := r.lookup(name, fallback.String())
	r.note(name, fallback.String(), about, text)
	value, err := time.ParseDuration(text)
	if err != nil || value < low || value > high {
		r.Mistake(name, fmt.Sprintf("must be a duration from %s to %s, such as %s", low, high, fallback))
	}
	return value
}

// Int reads a whole number within [low, high].
func (r *Reader) Int(name string, fallback, low, high int, about string) int {
	text := r.lookup(name, strconv.Itoa(fallback))
	r.note(name, strconv.Itoa(fallback), about, text)
	value, err := strconv.Atoi(text)
	if err != nil || value < low || value > high {
		r.Mistake(name, fmt.Sprintf("must be a whole number from %d to %d", low, high))
	}
	return value
}

// Choice reads one of the given words; the first is the default.
func (r *Reader) Choice(name, about string, words ...string) string {
	value := r.lookup(name, words[0])
	r.note(name, words[0], about+" ("+strings.Join(words, ", ")+")", value)
	if !slices.Contains(words, value) {
		r.Mistake(name, "must be one of "+strings.Join(words, ", "))
	}
	return value
}

// Mistake notes that the setting of that name is wrong. The text must not hold its value.
func (r *Reader) Mistake(name, text string) {
	r.mistakes = append(r.mistakes, fmt.Errorf("%s %s", name, text))
}

// Err returns every mistake so far, joined, or nil.
func (r *Reader) Err() error {
	return errors.Join(r.mistakes...)
}

// Fields returns the settings for the line that a service logs at its start.
func (r *Reader) Fields() []zap.Field {
	fields := make([]zap.Field, 0, len(r.settings))
	for _, s := range r.settings {
		fields = append(fields, zap.String(s.name, s.value))
	}
	return fields
}

// Answer handles --help and --version: it prints to w and returns true when the program has
// nothing more to do.
func (r *Reader) Answer(args []string, w io.Writer) bool {
	for _, arg := range args {
		switch arg {
		case "-h", "--help", "-help", "help":
			r.help(w)
			return true
		case "--version", "-version", "version":
			fmt.Fprintln(w, r.program, version())
			return true
		}
	}
	return false
}

func (r *Reader) help(w io.Writer) {
	if r.commands != "" {
		fmt.Fprintln(w, r.commands)
	}
	fmt.Fprintf(w, "%s reads its settings from the environment:\n\n", r.program)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range r.settings {
		fallback := s.fallback
		if fallback == "" {
			fallback = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.name, fallback, s.about)
	}
	table.Flush() //nolint:errcheck // nobody to tell when a terminal has gone
}

func (r *Reader) lookup(name, fallback string) string {
	if value := r.getenv(name); value != "" {
		return value
	}
	return fallback
}

func (r *Reader) note(name, fallback, about, value string) {
	r.settings = append(r.settings, setting{name: name, fallback: fallback, about: about, value: value})
}

func version() string {
	if Version != "" {
		return Version
	}
	info, _ := debug.ReadBuildInfo()
	if info != nil {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}
