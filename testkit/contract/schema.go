package contract

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func (d Document) at(from map[string]any, path ...string) map[string]any {
	for _, name := range path {
		from = d.resolve(asMap(from[name]))
	}
	return from
}

func (d Document) resolve(m map[string]any) map[string]any {
	if ref, ok := m["$ref"].(string); ok {
		return d.at(d.root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	return m
}

// faults checks the part of JSON Schema that our contracts use; another keyword is a fault.
func (d Document) faults(at string, schema map[string]any, value any) (found []string) {
	schema = d.resolve(schema)
	add := func(format string, args ...any) { found = append(found, at+" "+fmt.Sprintf(format, args...)) }
	for keyword, want := range schema {
		switch keyword {
		case "description", "default":
		case "type":
			if kinds := oneOrMany(want); !slices.Contains(kinds, any(kind(value))) {
				add("is %s, want %v", kind(value), kinds)
			}
		case "required":
			for _, name := range want.([]any) {
				if _, ok := asMap(value)[name.(string)]; !ok {
					add("has no %s", name)
				}
			}
		case "additionalProperties":
			for name := range asMap(value) {
				if _, ok := asMap(schema["properties"])[name]; !ok {
					add("has %s, which is not in the contract", name)
				}
			}
		case "properties":
			for _, name := range slices.Sorted(maps.Keys(asMap(want))) {
				if member, ok := asMap(value)[name]; ok {
					found = append(found, d.faults(at+"."+name, asMap(asMap(want)[name]), member)...)
				}
			}
		case "items":
			many, _ := value.([]any) // may be null
			for i, item := range many {
				found = append(found, d.faults(fmt.Sprintf("%s[%d]", at, i), asMap(want), item)...)
			}
		case "enum":
			if !slices.Contains(want.([]any), value) {
				add("is %v, want one of %v", value, want)
			}
		case "minimum":
			if n, ok := value.(float64); ok && n < float64(want.(int)) {
				add("is %v, want at least %v", value, want)
			}
		case "maxLength":
			if s, ok := value.(string); ok && len(s) > want.(int) {
				add("is too long")
			}
		case "pattern":
			if !regexp.MustCompile(want.(string)).MatchString(value.(string)) {
				add("is %v, want %v", value, want)
			}
		case "format":
			if s, ok := value.(string); ok && !hasFormat(want.(string), s) {
				add("is %q, want a %v", s, want)
			}
		default:
			add("has a schema with %s, which is not known here", keyword)
		}
	}
	return found
}

func oneOrMany(v any) []any {
	if many, ok := v.([]any); ok {
		return many
	}
	return []any{v}
}

func kind(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

func hasFormat(format, s string) bool {
	if format == "uuid" {
		return uuid.Validate(s) == nil
	}
	_, err := time.Parse(time.RFC3339, s)
	return format == "date-time" && err == nil
}
