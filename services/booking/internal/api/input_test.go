package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Issue 3 §5: every bad input is refused with the field's name, and nothing of it is kept.
func TestBadInput(t *testing.T) {
	d := open(t)
	with := func(name string, value any) string {
		body, err := json.Marshal(fields(map[string]any{name: value}))
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	raw := func(name, literal string) string { return strings.Replace(with(name, "@@"), `"@@"`, literal, 1) }
	tests := map[string]struct{ body, field string }{
		"unknown field":               {with("vip", true), "vip"},
		"field of another case":       {raw("Name", `"x"`), "Name"},
		"field twice":                 {strings.Replace(with("note", "x"), "{", `{"note":"y",`, 1), "note"},
		"field with a long name":      {with(strings.Repeat("x", 1000), 1), strings.Repeat("x", 64) + "…"},
		"number for a string":         {with("name", 7), "name"},
		"null for a string":           {raw("address", "null"), "address"},
		"object for a string":         {with("note", map[string]any{"a": 1}), "note"},
		"array for a string":          {with("locale", []string{"en"}), "locale"},
		"string for a number":         {with("seats", "1"), "seats"},
		"fraction of a seat":          {with("seats", 1.5), "seats"},
		"seats in exponents":          {raw("seats", "1e0"), "seats"},
		"null seats":                  {raw("seats", "null"), "seats"},
		"true seats":                  {with("seats", true), "seats"},
		"no seats":                    {with("seats", 0), "seats"},
		"negative seats":              {with("seats", -1), "seats"},
		"more seats than there are":   {with("seats", 2), "seats"},
		"more seats than integers":    {raw("seats", "99999999999999999999"), "seats"},
		"B17 U+0000 in the name":      {raw("name", `"A\u0000B"`), "name"},
		"B17 U+0000 in the note":      {raw("note", `"A\u0000B"`), "note"},
		"B17 U+0000 in the address":   {raw("address", `"a\u0000@x.example"`), "address"},
		"B17 lone high surrogate":     {raw("name", `"\ud800"`), "name"},
		"B17 lone low surrogate":      {raw("note", `"x\uDC00y"`), "note"},
		"B17 reversed surrogates":     {raw("name", `"\udc00\ud800"`), "name"},
		"B17 half a pair, then text":  {raw("name", `"\ud83dx"`), "name"},
		"B17 two first halves":        {raw("name", `"\ud83d\ud83d\ude00"`), "name"},
		"bytes that are no UTF-8":     {raw("name", "\"A\xffB\""), "body"},
		"CESU bytes of a surrogate":   {raw("name", "\"A\xed\xa0\x80B\""), "body"},
		"B61 line break in the name":  {with("name", "A\nBcc: x@evil.example"), "name"},
		"B61 CR LF in the name":       {with("name", "A\r\n\r\n<b>"), "name"},
		"NEL in the name":             {with("name", "A\u0085B"), "name"},
		"line separator in the name":  {with("name", "A\u2028B"), "name"},
		"escape in the note":          {with("note", "\x1b[2J"), "note"},
		"blank name":                  {with("name", " \u00a0 "), "name"},
		"empty name":                  {with("name", ""), "name"},
		"long name":                   {with("name", strings.Repeat("n", 201)), "name"},
		"long note":                   {with("note", strings.Repeat("n", 2001)), "note"},
		"no name":                     {with("name", nil), "name"},
		"no address":                  {with("address", nil), "address"},
		"no resource":                 {with("resource", nil), "resource"},
		"no start":                    {with("start", nil), "start"},
		"B60 smuggled commands":       {with("address", "a@b.example>\r\nDATA\r\nx"), "address"},
		"B79 display name":            {with("address", "Name <a@b.example>"), "address"},
		"B79 quoted blank":            {with("address", `" "@x.example`), "address"},
		"B79 quoted at sign":          {with("address", `"a@b"@x.example`), "address"},
		"B79 multiplication sign":     {with("address", "foo@bar.com\u00d7"), "address"},
		"B79 address literal":         {with("address", "a@[1.2.3.4]"), "address"},
		"B79 two addresses":           {with("address", "a@x.example, b@x.example"), "address"},
		"B79 space after the address": {with("address", "a@x.example "), "address"},
		"locale with an underscore":   {with("locale", "de_DE"), "locale"},
		"long locale":                 {with("locale", "en-"+strings.Repeat("abcdefgh-", 4)+"x"), "locale"},
		"start in the past":           {with("start", time.Now().Add(-time.Second).Format(time.RFC3339)), "start"},
		"start in the year 9999":      {with("start", "9999-01-01T00:00:00Z"), "start"},
		"start of the year 0":         {with("start", "0000-01-01T00:00:00Z"), "start"},
		"start as a number":           {with("start", 2210000000), "start"},
		"start in words":              {with("start", "tomorrow"), "start"},
		"30 February":                 {with("start", "2040-02-30T10:00:00Z"), "start"},
		"offset of a day":             {with("start", "2040-02-20T10:00:00+24:00"), "start"},
		"offset of 60 minutes":        {with("start", "2040-02-20T10:00:00+01:60"), "start"},
		"leap second":                 {with("start", "2040-06-30T23:59:60Z"), "start"},
		"comma for a point":           {with("start", "2040-06-30T23:59:59,5Z"), "start"},
		"small letters":               {with("start", "2040-06-30t23:59:59z"), "start"},
		"unknown resource":            {with("resource", "nowhere"), "resource"},
		"resource that is no slug":    {with("resource", "a.b.>"), "resource"},
		"retired resource":            {with("resource", "old"), "resource"},
		"empty body":                  {"", "body"},
		"blank body":                  {" \n", "body"},
		"array":                       {"[" + with("note", "x") + "]", "body"},
		"null":                        {"null", "body"},
		"two objects":                 {with("note", "x") + with("note", "x"), "body"},
		"text after the object":       {with("note", "x") + "x", "body"},
		"cut off":                     {with("note", "x")[:40], "body"},
		"comma at the end":            {`{"note":"x",}`, "body"},
		"byte order mark":             {"\ufeff" + with("note", "x"), "body"},
		"very deep":                   {`{"note":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, "body"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := d.do(http.MethodPost, "/v1/bookings", tt.body)
			if r.status != http.StatusUnprocessableEntity || r.slug() != "invalid-request" || r.header.Get("Content-Type") != "application/problem+json" {
				t.Fatalf("%d %s", r.status, r.body)
			}
			var p struct {
				Errors []struct{ Field, Detail string }
			}
			if err := json.Unmarshal(r.body, &p); err != nil || len(p.Errors) != 1 || p.Errors[0].Field != tt.field || p.Errors[0].Detail == "" {
				t.Errorf("%s names %+v, want %s (%v)", r.body, p.Errors, tt.field, err)
			}
		})
	}
	if n := d.count(`select (select count(*) from booking.bookings) + (select count(*) from booking.customers) + (select count(*) from booking.outbox_events)`); n != 0 {
		t.Errorf("%d rows were written", n)
	}
	if n := d.logs.Len(); n != 0 {
		t.Errorf("%d lines were logged", n)
	}
}

// However many faults a body has, its answer is small and made at once.
func TestManyFaults(t *testing.T) {
	t.Parallel()
	d := open(t)
	var names []string
	for i := range 8000 {
		names = append(names, fmt.Sprintf("%04x", i))
	}
	r := d.do(http.MethodPost, "/v1/bookings", `{"`+strings.Join(names[:7000], `":1,"`)+`":1}`)
	if r.status != http.StatusUnprocessableEntity || len(r.body) > 8<<10 {
		t.Errorf("%d with %d bytes", r.status, len(r.body))
	}
	at := "/b/" + d.token(d.book(nil).booking(t)) + "/move"
	r = d.do(http.MethodPost, at, strings.Join(names, "&"), "Content-Type", "application/x-www-form-urlencoded", "Accept", asJSON)
	if r.status != http.StatusUnprocessableEntity || len(r.body) > 8<<10 {
		t.Errorf("a form: %d with %d bytes", r.status, len(r.body))
	}
}

// What looks odd and is good is stored and told as it is.
func TestOddInput(t *testing.T) {
	t.Parallel()
	d := open(t)
	for i, name := range []string{
		`</p><a href="https://evil.example">verify</a>`, `\u0000 as text`, "😀 of a pair", "Zoë 李小龍", `"quoted" \ back`, strings.Repeat("é", 200),
	} {
		start := time.Date(2040, 5, 1+i, 9, 0, 0, 0, time.UTC).Format(time.RFC3339)
		b := d.book(map[string]any{"name": name, "start": start, "note": "a\r\nb\tc"}).booking(t)
		if b.Name != name || b.Note != "a\nb\tc" {
			t.Errorf("name %q, note %q", b.Name, b.Note)
		}
	}
	escaped := `{"resource":"room-7","start":"2040-06-01T09:00:00Z","name":"\ud83d\uDE00 \\ud800","address":"a@x.example"}`
	if b := d.do(http.MethodPost, "/v1/bookings", escaped).booking(t); b.Name != `😀 \ud800` {
		t.Errorf("name %q", b.Name)
	}
}

func TestBadEdits(t *testing.T) {
	t.Parallel()
	d := open(t)
	b := d.book(map[string]any{"resource": "hall", "seats": 2}).booking(t)
	for body, field := range map[string]string{
		`{"resource":"old"}`: "resource", `{"start":"2040-01-01T00:00:00Z"}`: "start", `{"status":"cancelled"}`: "status", `{"seats":0}`: "seats",
		`{"seats":6}`: "seats", `{"seats":null}`: "seats", `{"name":null}`: "name", `{"name":"\ud800"}`: "name", `{"address":"x"}`: "address",
		`{"locale":"_"}`: "locale", `{"note":"\u0000"}`: "note", ``: "body", `[]`: "body",
	} {
		r := d.do(http.MethodPatch, "/v1/bookings/"+b.ID, body, "If-Match", "*")
		if r.status != http.StatusUnprocessableEntity || !bytes.Contains(r.body, []byte(`"field":"`+field+`"`)) {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
	for body, field := range map[string]string{
		`{}`: "start", `{"start":null}`: "start", `{"start":"2020-01-01T00:00:00Z"}`: "start", `{"start":"2040-01-01T00:00:00"}`: "start", `{"start":"2040-01-01T00:00:00Z","seats":1}`: "seats", ``: "body",
	} {
		r := d.do(http.MethodPost, "/v1/bookings/"+b.ID+"/reschedule", body, "If-Match", "*")
		if r.status != http.StatusUnprocessableEntity || !bytes.Contains(r.body, []byte(`"field":"`+field+`"`)) {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
	if r := d.do(http.MethodPost, "/v1/bookings/"+b.ID+"/cancel", `{"reason":"x"}`, "If-Match", "*"); r.status != http.StatusUnprocessableEntity {
		t.Errorf("cancel with a reason: %d", r.status)
	}
	if got := d.do(http.MethodGet, "/v1/bookings/"+b.ID, "").booking(t); got.Version != 1 {
		t.Errorf("version %d", got.Version)
	}
}

func TestMediaTypesAndSizes(t *testing.T) {
	t.Parallel()
	d := open(t)
	for kind, want := range map[string]int{
		"application/json; charset=UTF-8": 201, "Application/JSON": 409, "": 415, "text/json": 415, "application/x-www-form-urlencoded": 415,
		"application/json; charset=latin1": 415, "application/merge-patch+json": 415, "application/json;;": 415,
	} {
		if want == 201 || want == 409 { // whichever comes first gets the slot
			if r := d.book(nil, "Content-Type", kind); r.status != 201 && r.status != 409 {
				t.Errorf("%q: %d", kind, r.status)
			}
			continue
		}
		if r := d.book(nil, "Content-Type", kind); r.status != want {
			t.Errorf("%q: %d, want %d", kind, r.status, want)
		}
	}
	if r := d.book(nil, "Content-Encoding", "gzip"); r.status != http.StatusUnsupportedMediaType {
		t.Errorf("gzip: %d", r.status)
	}
	body, err := json.Marshal(fields(map[string]any{"start": "2040-04-04T10:00:00Z"}))
	if err != nil {
		t.Fatal(err)
	}
	full := string(body) + strings.Repeat(" ", 64<<10-len(body))
	if r := d.do(http.MethodPost, "/v1/bookings", full); r.status != http.StatusCreated {
		t.Errorf("64 KiB: %d %s", r.status, r.body)
	}
	if r := d.do(http.MethodPost, "/v1/bookings", full+" "); r.status != http.StatusRequestEntityTooLarge {
		t.Errorf("one byte more: %d", r.status)
	}
	for _, path := range []string{"/v1/bookings/x", "/v1/bookings/" + strings.Repeat("a", 36), "/v1/bookings/0192%00", "/v1/bookings/"} {
		if r := d.do(http.MethodGet, path, ""); r.status != http.StatusNotFound || r.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}
