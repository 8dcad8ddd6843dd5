package endpoint_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/slotwise/slotwise/pkg/id"
	"github.com/slotwise/slotwise/services/notifier/internal/endpoint"
	"go.uber.org/zap"
	"go.yaml.in/yaml/v3"
)

// document is openapi.yaml as it is served.
type document struct{ root map[string]any }

func readContract(t *testing.T) document {
	t.Helper()
	d := open(t)
	r := d.do(http.MethodGet, "/openapi.yaml", "")
	if r.status != http.StatusOK || r.header.Get("Content-Type") != "application/yaml" {
		t.Fatalf("%d %v", r.status, r.header)
	}
	var c document
	if err := yaml.Unmarshal(r.body, &c.root); err != nil {
		t.Fatal(err)
	}
	return c
}

// The contract's routes are the router's.
func TestContractHasEveryRoute(t *testing.T) {
	t.Parallel()
	var want, got []string
	router := endpoint.NewAPI(nil, endpoint.Doors{}, zap.NewNop(), prometheus.NewRegistry()).(chi.Routes)
	err := chi.Walk(router, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		want = append(want, strings.ToLower(method)+" "+route)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range asMap(readContract(t).root["paths"]) {
		for method := range asMap(item) {
			if method != "parameters" {
				got = append(got, method+" "+path)
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("openapi.yaml has %v\nthe router has   %v", got, want)
	}
}

// A comma in a description without quotes would make members of its words.
func TestContractHasNoStrayWords(t *testing.T) {
	t.Parallel()
	var walk func(at string, v any)
	walk = func(at string, v any) {
		for _, item := range oneOrMany(v) {
			for name, member := range asMap(item) {
				if strings.Contains(name, " ") {
					t.Errorf("%s has %q", at, name)
				}
				walk(at+"/"+name, member)
			}
		}
	}
	walk("", readContract(t).root)
}

// validate checks that the answer is one that the contract has for this request.
func (c document) validate(t *testing.T, method, path string, r reply) {
	t.Helper()
	at := []string{"paths", path, method, "responses", fmt.Sprint(r.status)}
	response := c.at(c.root, at...)
	if response == nil {
		t.Errorf("no %v", at)
		return
	}
	for name := range asMap(response["headers"]) {
		if name != "Retry-After" && r.header.Get(name) == "" {
			t.Errorf("%v: no header %s", at, name)
		}
	}
	schema := c.at(response, "content", r.header.Get("Content-Type"), "schema")
	var body any
	if err := json.Unmarshal(r.body, &body); err != nil || schema == nil {
		t.Errorf("%v: no schema for %s (%v)", at, r.header.Get("Content-Type"), err)
		return
	}
	for _, fault := range c.faults("body", schema, body) {
		t.Errorf("%v: %s", at, fault)
	}
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func (c document) at(from map[string]any, path ...string) map[string]any {
	for _, name := range path {
		from = c.resolve(asMap(from[name]))
	}
	return from
}

func (c document) resolve(m map[string]any) map[string]any {
	if ref, ok := m["$ref"].(string); ok {
		return c.at(c.root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	return m
}

// faults checks the part of JSON Schema that the contract uses; another keyword is a fault.
func (c document) faults(at string, schema map[string]any, value any) (found []string) {
	schema = c.resolve(schema)
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
					found = append(found, c.faults(at+"."+name, asMap(asMap(want)[name]), member)...)
				}
			}
		case "items":
			many, _ := value.([]any) // may be null
			for i, item := range many {
				found = append(found, c.faults(fmt.Sprintf("%s[%d]", at, i), asMap(want), item)...)
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
			add("has a schema with %s, which this test does not know", keyword)
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
		return id.IsBooking(s)
	}
	_, err := time.Parse(time.RFC3339, s)
	return format == "date-time" && err == nil
}
