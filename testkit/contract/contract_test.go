package contract

import (
	"net/http"
	"slices"
	"testing"
)

var served = []byte(`
openapi: 3.1.0
paths:
  /things/{id}:
    parameters:
      - name: id
    get:
      responses:
        "200":
          headers:
            ETag: {}
            Retry-After: {}
          content:
            application/json:
              schema: {$ref: "#/components/schemas/Thing"}
components:
  schemas:
    Thing:
      type: object
      required: [id, n]
      additionalProperties: false
      properties:
        id: {type: string, format: uuid}
        n: {type: [integer, "null"], minimum: 1}
        at: {type: string, format: date-time}
        kind: {type: string, enum: [a, b]}
        list: {type: array, items: {type: string, maxLength: 2, pattern: "^x"}}
        odd: {nullable: true}
`)

func TestCheck(t *testing.T) {
	t.Parallel()
	d := Read(t, served)
	if got := d.Routes(); !slices.Equal(got, []string{"GET /things/{id}"}) {
		t.Error(got)
	}
	const name = `"id": "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"`
	for body, want := range map[string]string{
		`{` + name + `, "n": 1, "at": "2026-12-01T09:00:00Z", "kind": "a", "list": ["x", "xy"]}`: "",
		`{` + name + `, "n": null}`:               "",
		`{` + name + `}`:                          "body has no n",
		`{"id": "x", "n": 1}`:                     `body.id is "x", want a uuid`,
		`{` + name + `, "n": 0}`:                  "body.n is 0, want at least 1",
		`{` + name + `, "n": 1.5}`:                "body.n is number, want [integer null]",
		`{` + name + `, "n": 1, "at": "today"}`:   `body.at is "today", want a date-time`,
		`{` + name + `, "n": 1, "kind": "c"}`:     "body.kind is c, want one of [a b]",
		`{` + name + `, "n": 1, "list": ["xyz"]}`: "body.list[0] is too long",
		`{` + name + `, "n": 1, "list": ["y"]}`:   "body.list[0] is y, want ^x",
		`{` + name + `, "n": 1, "other": 1}`:      "body has other, which is not in the contract",
		`{` + name + `, "n": 1, "odd": 1}`:        "body.odd has a schema with nullable, which is not known here",
		`{`:                                       `has no schema for "application/json", or no JSON (unexpected end of JSON input)`,
	} {
		var all []string
		if want != "" {
			all = []string{"GET /things/{id} 200: " + want}
		}
		header := http.Header{"Etag": {"1"}, "Content-Type": {"application/json"}}
		if got := d.check(http.MethodGet, "/things/{id}", http.StatusOK, header, []byte(body)); !slices.Equal(got, all) {
			t.Errorf("%s: %q, want %q", body, got, all)
		}
	}
	if got := d.check(http.MethodGet, "/things/{id}", http.StatusNotFound, nil, nil); len(got) != 1 {
		t.Error("a status that is not there:", got)
	}
	if got := d.check(http.MethodGet, "/things/{id}", http.StatusOK, http.Header{"Content-Type": {"application/json"}}, []byte(`{`+name+`, "n": 1}`)); len(got) != 1 {
		t.Error("without the header:", got)
	}
	if got := strays("", map[string]any{"description": []any{map[string]any{"and so on": nil}}}); len(got) != 1 {
		t.Error("words as members:", got)
	}
}
