package apikey_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/pkg/apikey"
)

var (
	keyForm = regexp.MustCompile(`^slw_[a-z2-7]{40}$`)
	idForm  = regexp.MustCompile(`^key_[a-z2-7]{16}$`)
)

func TestNew(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		text, hash := apikey.New()
		if !keyForm.MatchString(text) || seen[text] {
			t.Fatalf("%q is no new key", text)
		}
		seen[text] = true
		if parsed, err := apikey.Parse(text); err != nil || parsed != hash {
			t.Fatalf("Parse(%q) = %x, %v, want %x", text, parsed, err, hash)
		}
		if id := apikey.NewID(); !idForm.MatchString(id) || seen[id] {
			t.Fatalf("%q is no new id", id)
		}
	}
}

// Every fault that a hand makes is found without the database: another character, one too few
// or too many, two that changed places.
func TestTypingFaults(t *testing.T) {
	text, _ := apikey.New()
	faults := []string{"", "slw_", text[4:], "sk_" + text[4:], text + "a", text[:len(text)-1], " " + text, strings.ToUpper(text), text[:43] + "\n", text[:43] + "8"}
	for i := 4; i < len(text); i++ {
		for _, letter := range "abcdefghijklmnopqrstuvwxyz234567" {
			if other := text[:i] + string(letter) + text[i+1:]; other != text {
				faults = append(faults, other)
			}
		}
		if i+1 < len(text) && text[i] != text[i+1] {
			faults = append(faults, text[:i]+text[i+1:i+2]+text[i:i+1]+text[i+2:])
		}
	}
	for _, fault := range faults {
		if _, err := apikey.Parse(fault); !errors.Is(err, apikey.ErrForm) {
			t.Errorf("%q instead of %q: %v", fault, text, err)
		}
	}
}

// The form is a contract: keys that are in use go on to work. This one is nobody's.
func TestTheForm(t *testing.T) {
	const known = "slw_aaaqeayeaudaocajbifqydiob4ibceqtr6d2vic6"
	if _, err := apikey.Parse(known); err != nil {
		t.Errorf("Parse(%q): %v", known, err)
	}
}

func FuzzParse(f *testing.F) {
	text, _ := apikey.New()
	f.Add(text)
	f.Add("slw_")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := apikey.Parse(text); err == nil && !keyForm.MatchString(text) {
			t.Errorf("%q is taken", text)
		}
	})
}

func TestPrincipal(t *testing.T) {
	some := apikey.Principal{Scopes: []apikey.Scope{apikey.BookingsRead}, Resources: []string{"room-7"}}
	all := apikey.Principal{Scopes: []apikey.Scope{apikey.Admin}}
	nobody := apikey.From(t.Context())
	for _, c := range []struct {
		what      string
		got, want bool
	}{
		{"read", some.May(apikey.BookingsRead), true},
		{"write", some.May(apikey.BookingsWrite), false},
		{"admin writes", all.May(apikey.BookingsWrite), true},
		{"sees its own", some.Sees("room-7"), true},
		{"sees another", some.Sees("room-8"), false},
		{"admin sees", all.Sees("room-8"), true},
		{"covers its own", some.Covers([]string{"room-7"}), true},
		{"covers one more", some.Covers([]string{"room-7", "room-8"}), false},
		{"covers all", some.Covers(nil), false},
		{"admin covers all", all.Covers(nil), true},
		{"nobody may", nobody.May(apikey.BookingsRead), false},
		{"nobody sees", nobody.Sees("room-7"), false},
		{"nobody covers", nobody.Covers(nil), false},
		{"from the context", apikey.From(apikey.With(t.Context(), some)).Sees("room-7"), true},
	} {
		if c.got != c.want {
			t.Errorf("%s: %t", c.what, c.got)
		}
	}
}
