package web

import (
	"regexp"
	"strings"
	"time"
)

// timeForm is RFC 3339 §5.6 where time.Parse takes more: a comma, offsets of a day or of 60 minutes.
var timeForm = regexp.MustCompile(`T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// ParseInstant reads a time as in RFC 3339, or says what is wrong with it. Without an offset from
// UTC a time is none: where clocks go back it happens twice, where they go forward never.
func ParseInstant(s string) (t time.Time, fault string) {
	t, err := time.Parse(time.RFC3339, s)
	if err == nil && timeForm.MatchString(s) {
		return t, ""
	}
	if _, local := time.Parse("2006-01-02T15:04:05", s); local == nil {
		return time.Time{}, "must have an offset from UTC, such as 2026-03-29T03:30:00+02:00 or 2026-03-29T01:30:00Z"
	}
	return time.Time{}, "must be a time as in RFC 3339, such as 2026-03-29T03:30:00+02:00"
}

// hasLoneSurrogate reports whether a JSON string has an escape \ud800 to \udfff that is no
// half of a pair.
func hasLoneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		switch unit := utf16Unit(raw, i); {
		case unit >= 0xd800 && unit < 0xdc00:
			low := utf16Unit(raw, i+6)
			if i+5 >= len(raw) || raw[i+5] != '\\' || low < 0xdc00 || low > 0xdfff {
				return true
			}
			i += 10
		case unit >= 0xdc00 && unit <= 0xdfff:
			return true
		}
	}
	return false
}

// utf16Unit returns the four hexadecimal digits after a u at raw[at:]; 0 when there is none.
func utf16Unit(raw []byte, at int) int {
	if at+4 >= len(raw) || raw[at] != 'u' {
		return 0
	}
	unit := 0
	for _, digit := range raw[at+1 : at+5] {
		value := strings.IndexByte("0123456789abcdef", digit|0x20)
		if value < 0 {
			return 0
		}
		unit = unit<<4 | value
	}
	return unit
}
