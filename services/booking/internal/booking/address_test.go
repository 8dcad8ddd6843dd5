package booking

import (
	"net/mail"
	"strings"
	"testing"
)

// What SMTP can carry to every server, unquoted; the stored form is the sent form.
func TestB79Address(t *testing.T) {
	long := strings.Repeat("a", 64) + "@" + strings.Repeat("b", 60) + "." + strings.Repeat("c", 60) + "." + strings.Repeat("d", 62) + ".ef"
	good := []string{
		"a@b.example", "Ada.Lovelace+tag@mail.example.org", "o'neil@x.example", "!#$%&'*+/=?^_`{|}~-@x.example",
		"x@xn--bcher-kva.example", "1@2.example", "a@b-c.d-e.xn--p1ai", long,
	}
	for _, s := range good {
		if fault := addressFault(s); fault != "" {
			t.Errorf("%q is refused: %s", s, fault)
		}
		if parsed, err := mail.ParseAddress(s); err != nil || parsed.Address != s {
			t.Errorf("%q is another address for a mail parser: %v, %v", s, parsed, err)
		}
	}
	bad := []string{
		"", "x", "@x.example", "a@", "a@@x.example", "a@b@x.example", "a b@x.example", " a@x.example", "a@x.example ",
		`" "@x.example`, `"a@b"@x.example`, `"a"@x.example`, "foo@bar.com\u00d7", "ü@x.example", "a@ü.example",
		"a@[1.2.3.4]", "a@[IPv6:::1]", "a@1.2.3.4", "Name <a@b.example>", "<a@b.example>", "a@b.example (x)", "mailto:a@b.example\n",
		".a@x.example", "a.@x.example", "a..b@x.example", "a@x..example", "a@.x.example", "a@x.example.", "a@localhost", "a@x.e",
		"a@-x.example", "a@x-.example", "a@x_y.example", "a,b@x.example", "a;b@x.example", "a@x.example,b@x.example",
		"a@b.example>\r\nDATA\r\nx", "a@b.example\r\nRCPT TO:<c@d.example>", "a\x00@b.example", "a\x7f@b.example", "a@b.example\x00",
		"a@b%c.example", "a\\b@x.example", "a(b)@x.example", "a:b@x.example",
		strings.Repeat("a", 65) + "@x.example", "a@" + strings.Repeat("b", 64) + ".example", "a" + long,
		"a@" + strings.Repeat("b.", 150) + "example", "a@x\xff.example", "a@x.123",
	}
	for _, s := range bad {
		if addressFault(s) == "" {
			t.Errorf("%q is taken", s)
		}
	}
}

// An address that passes stands in an SMTP command and in a header without any quoting.
func FuzzB60Address(f *testing.F) {
	for _, s := range []string{"a@b.example", "a@b.example>\r\nDATA\r\nx", `"a b"@x.example`, "a@[::1]", "ü@x.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if addressFault(s) != "" {
			return
		}
		if len(s) > 254 || strings.ContainsAny(s, " \t\r\n\x00<>()[]\\,;:\"") || strings.Count(s, "@") != 1 {
			t.Errorf("%q is taken", s)
		}
		for _, b := range []byte(s) {
			if b <= ' ' || b > '~' {
				t.Errorf("%q is taken", s)
			}
		}
		if parsed, err := mail.ParseAddress(s); err != nil || parsed.Address != s {
			t.Errorf("%q is another address for a mail parser: %v, %v", s, parsed, err)
		}
		if addressFault(Normalise(s)) != "" || Normalise(Normalise(s)) != Normalise(s) {
			t.Errorf("the normal form of %q is refused", s)
		}
	})
}
