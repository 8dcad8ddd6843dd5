// Package contract holds the answers of an HTTP API against its OpenAPI document.
package contract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Document is an OpenAPI document.
type Document struct{ root map[string]any }

// Read reads a document as it was served. A comma in a description without quotes makes members
// of its words, so a member whose name has a space fails the test.
func Read(t *testing.T, served []byte) (d Document) {
	t.Helper()
	if err := yaml.Unmarshal(served, &d.root); err != nil {
		t.Fatal(err)
	}
	for _, at := range strays("", d.root) {
		t.Errorf("the contract has %s", at)
	}
	return d
}

// strays returns where names have a space.
func strays(at string, v any) (found []string) {
	for _, item := range oneOrMany(v) {
		for name, member := range asMap(item) {
			if strings.Contains(name, " ") {
				found = append(found, at+"/"+name)
			}
			found = append(found, strays(at+"/"+name, member)...)
		}
	}
	return found
}

// Routes returns methods and paths, such as "GET /v1/things/{id}", sorted.
func (d Document) Routes() (routes []string) {
	for path, item := range asMap(d.root["paths"]) {
		for method := range asMap(item) {
			if method != "parameters" {
				routes = append(routes, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(routes)
	return routes
}

// Operation returns what the document has of a method and path; nil: nothing.
func (d Document) Operation(method, path string) map[string]any {
	return d.at(d.root, "paths", path, strings.ToLower(method))
}

// Check fails the test unless the answer is one that the document has for this method and path
// (with its parameters' names): status, headers but Retry-After, and body.
func (d Document) Check(t *testing.T, method, path string, status int, header http.Header, body []byte) {
	t.Helper()
	for _, fault := range d.check(method, path, status, header, body) {
		t.Error(fault)
	}
}

func (d Document) check(method, path string, status int, header http.Header, body []byte) (faults []string) {
	at := fmt.Sprintf("%s %s %d", method, path, status)
	response := d.at(d.Operation(method, path), "responses", fmt.Sprint(status))
	if response == nil {
		return []string{at + ": is not in the contract"}
	}
	for name := range asMap(response["headers"]) {
		if name != "Retry-After" && header.Get(name) == "" {
			faults = append(faults, at+": has no header "+name)
		}
	}
	schema := d.at(response, "content", header.Get("Content-Type"), "schema")
	var value any
	if err := json.Unmarshal(body, &value); err != nil || schema == nil {
		return append(faults, fmt.Sprintf("%s: has no schema for %q, or no JSON (%v)", at, header.Get("Content-Type"), err))
	}
	for _, fault := range d.faults("body", schema, value) {
		faults = append(faults, at+": "+fault)
	}
	return faults
}
