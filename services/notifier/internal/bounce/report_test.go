package bounce_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/slotwise/slotwise/services/notifier/internal/bounce"
)

// check fails when a report can't be stored, or holds what it must not.
func check(t *testing.T, r bounce.Report) {
	t.Helper()
	for _, key := range r.Keys {
		if _, ok := bounce.Name(key); !ok {
			t.Errorf("key %q", key)
		}
	}
	if r.Type != bounce.Hard && r.Type != bounce.Soft && r.Type != bounce.None {
		t.Errorf("type %q", r.Type)
	}
	if !utf8.ValidString(r.Words) || len(r.Words) > 1000 || r.Words == "" || strings.ContainsFunc(r.Words, func(c rune) bool { return c < ' ' }) {
		t.Errorf("words %q", r.Words)
	}
	if strings.ContainsFunc(r.Address, func(c rune) bool { return c > unicode.MaxASCII || c <= ' ' }) || len(r.Address) > 254 || len(r.Status) > 9 {
		t.Errorf("address %q, status %q", r.Address, r.Status)
	}
}

// providers are reports as a provider's webhook may bring them.
var providers = map[string]string{
	"hard":           `{"message_id": "<email-confirm-` + booking + `-v3@mail.slotwise.example>", "recipient": "zoe@customers.example", "status": "5.1.1", "diagnostic": "550 5.1.1 <zoe@customers.example> unknown", "type": "hard"}`,
	"by return path": `{"return_path": "b+c0698ovir79u4r3kv18diofaebsv3@bounces.slotwise.example", "type": "hard"}`,
	"by both":        `{"return_path": "b+c0698ovir79u4r3kv18diofaebsv3@bounces.slotwise.example", "message_id": "email-confirm-` + booking + `-v3@mail.slotwise.example", "type": "soft"}`,
	"soft":           `{"message_id": "x", "type": "soft", "diagnostic": "452 4.2.2 full"}`,
	"by status":      `{"message_id": "x", "status": "4.2.2"}`,
}

func TestReadProvider(t *testing.T) {
	const key = "email-confirm-" + booking + "-v3"
	for name, want := range map[string]bounce.Report{
		"hard":           {Keys: []string{key}, Type: bounce.Hard, Address: "zoe@customers.example", Status: "5.1.1", Words: "550 5.1.1 <(address)> unknown"},
		"by return path": {Keys: []string{key}, Type: bounce.Hard, Words: "no reason given"},
		"by both":        {Keys: []string{key}, Type: bounce.Soft, Words: "no reason given"},
		"soft":           {Type: bounce.Soft, Status: "4.2.2", Words: "452 4.2.2 full"},
		"by status":      {Type: bounce.Soft, Status: "4.2.2", Words: "status 4.2.2"},
	} {
		r, err := bounce.ReadProvider([]byte(providers[name]))
		if err != nil || strings.Join(r.Keys, " ") != strings.Join(want.Keys, " ") || r.Type != want.Type || r.Address != want.Address || r.Status != want.Status || r.Words != want.Words {
			t.Errorf("%s: %+v, %v\nwant %+v", name, r, err, want)
		}
	}
	for body, want := range map[string]string{
		``: "EOF", `[]`: "cannot unmarshal", `{}`: "message_id and return_path are missing", `{"type": "hard"}`: "are missing",
		`{"message_id": "x"}`:                                    "type must be hard or soft",
		`{"message_id": "x", "type": "complaint"}`:               "type must be hard or soft",
		`{"message_id": "x", "status": "2.0.0"}`:                 "type must be hard or soft",
		`{"message_id": "x", "type": "hard", "event": "bounce"}`: "unknown field",
		`{"message_id": "x", "type": "hard"} {}`:                 "there is more behind it",
		`{"message_id": ["x"], "type": "hard"}`:                  "cannot unmarshal",
	} {
		if _, err := bounce.ReadProvider([]byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}
