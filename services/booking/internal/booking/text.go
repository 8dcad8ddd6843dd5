package booking

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Longest texts in characters (code points); locale in bytes (RFC 5646 §4.4.1).
const (
	maxName   = 200
	maxNote   = 2000
	maxLocale = 35
)

// lineFault says why s can't stand in a line of text, such as a mail's header: it is blank or
// too long, or a character of it would end the line, hide, or turn the text around it.
func lineFault(s string, most int) string {
	visible := func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) }
	switch {
	case !utf8.ValidString(s):
		return "must be valid UTF-8"
	case strings.ContainsFunc(s, breaksLine):
		return "must not contain control characters or line breaks"
	case !strings.ContainsFunc(s, visible):
		return "must contain a visible character"
	case utf8.RuneCountInString(s) > most:
		return fmt.Sprintf("must have at most %d characters", most)
	}
	return ""
}

// noteFault says why s can't be a note: text of several lines.
func noteFault(s string) string {
	unfit := func(r rune) bool { return r != '\n' && r != '\t' && breaksLine(r) }
	switch {
	case !utf8.ValidString(s):
		return "must be valid UTF-8"
	case strings.ContainsFunc(s, unfit):
		return "must not contain control characters other than line breaks and tabs"
	case utf8.RuneCountInString(s) > maxNote:
		return fmt.Sprintf("must have at most %d characters", maxNote)
	}
	return ""
}

// breaksLine: control characters (C0, DEL, C1), Unicode's own line breaks, and those that
// change the direction of all text that follows (Unicode Standard Annex 9 §2).
func breaksLine(r rune) bool {
	return unicode.IsControl(r) || r == 0x2028 || r == 0x2029 ||
		r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

var localeForm = regexp.MustCompile(`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$`)

// localeFault says why s has not the form of a BCP 47 language tag. Empty is allowed.
func localeFault(s string) string {
	if s != "" && (len(s) > maxLocale || !localeForm.MatchString(s)) {
		return "must be a language tag (BCP 47) of at most 35 characters, such as en or pt-BR"
	}
	return ""
}

// startFault says why nobody can book for start at the time now. The year 9999 is left out,
// so that every end in every zone can still be written in RFC 3339.
func startFault(start, now time.Time) string {
	switch {
	case !start.After(now):
		return "must lie in the future"
	case start.Year() > 9998:
		return "must lie before the year 9999"
	}
	return ""
}

// tidyName and tidyNote bring text into the one form in which it is stored and compared.
func tidyName(s string) string { return strings.TrimSpace(s) }

func tidyNote(s string) string {
	return strings.TrimSpace(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s))
}

func tidyStart(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
