package link_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/pkg/link"
)

var update = flag.Bool("update", false, "write the golden file")

const (
	booking  = "01928c7e-5b3a-7c4d-8e9f-0a1b2c3d4e5f"
	customer = "01928c7e-0000-7abc-8def-112233445566"
)

var end = time.Date(2026, 12, 3, 14, 0, 0, 0, time.UTC)

// secret is a key's base64, all bytes alike.
func secret(b byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) }

func keys(tb testing.TB, text string) link.Keys {
	tb.Helper()
	k, err := link.ParseKeys(text)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func sign(tb testing.TB, k link.Keys, l link.Link) string {
	tb.Helper()
	token, err := k.Sign(l)
	if err != nil {
		tb.Fatal(err)
	}
	return token
}

// Mails that were sent hold tokens of this form: it stays.
func TestGolden(t *testing.T) {
	t.Parallel()
	k := keys(t, "7:"+secret('k'))
	got := sign(t, k, link.For(booking, customer, end))
	if *update {
		if err := os.WriteFile("testdata/v1.token", []byte(got+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/v1.token")
	if err != nil {
		t.Fatal(err)
	}
	if got+"\n" != string(want) || len(got) != link.Length {
		t.Errorf("token of %d characters %s, want %s", len(got), got, want)
	}
	l, err := k.Open(strings.TrimSpace(string(want)), end)
	if err != nil || l != (link.Link{Booking: booking, Customer: customer, Expires: time.Date(2027, 1, 2, 14, 0, 0, 0, time.UTC)}) {
		t.Errorf("opened %+v, %v", l, err)
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	k := keys(t, "1:"+secret('a'))
	late := end.Add(time.Second) // the minute is filled up
	token := sign(t, k, link.For(booking, customer, late))
	last := time.Date(2027, 1, 2, 14, 1, 0, 0, time.UTC)
	if l, err := k.Open(token, last.Add(-1)); err != nil || !l.Expires.Equal(last) {
		t.Errorf("just before: %+v, %v", l, err)
	}
	if _, err := k.Open(token, last); !errors.Is(err, link.ErrExpired) {
		t.Errorf("at its time: %v", err)
	}
	far := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) // later than any booking ends
	if l, err := k.Open(sign(t, k, link.For(booking, customer, far)), far); err != nil || l.Expires.Sub(far) > link.Life+time.Minute {
		t.Errorf("far away: %+v, %v", l, err)
	}
}

// A new key signs, the old one still verifies; once it is gone, so are its links.
func TestRotation(t *testing.T) {
	t.Parallel()
	l := link.For(booking, customer, end)
	before, during, after := keys(t, "1:"+secret('a')), keys(t, "2:"+secret('b')+", 1:"+secret('a')), keys(t, "2:"+secret('b'))
	old, fresh := sign(t, before, l), sign(t, during, l)
	for name, tt := range map[string]struct {
		keys  link.Keys
		token string
		want  error
	}{
		"old before":                 {before, old, nil},
		"old during":                 {during, old, nil},
		"new during":                 {during, fresh, nil},
		"new after":                  {after, fresh, nil},
		"old after":                  {after, old, link.ErrInvalid},
		"new before":                 {before, fresh, link.ErrInvalid},
		"the same id, another key":   {keys(t, "1:"+secret('x')), old, link.ErrInvalid},
		"the same key, another id":   {keys(t, "3:"+secret('a')), old, link.ErrInvalid},
		"no keys":                    {link.Keys{}, old, link.ErrInvalid},
		"the new one again, as said": {during, sign(t, after, l), nil},
	} {
		if _, err := tt.keys.Open(tt.token, end); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// One bit, one character, one byte more or less: nothing of it opens.
func TestForgeries(t *testing.T) {
	t.Parallel()
	k := keys(t, "1:"+secret('a')+",2:"+secret('b'))
	token := sign(t, k, link.For(booking, customer, end))
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	var bad []string
	for i := range raw {
		for bit := range 8 {
			forged := bytes.Clone(raw)
			forged[i] ^= 1 << bit
			bad = append(bad, base64.RawURLEncoding.EncodeToString(forged))
		}
	}
	for i := range len(token) + 1 {
		bad = append(bad, token[:i]+"\n"+token[i:], token[:i]+"\r"+token[min(i+1, len(token)):], token[:i])
	}
	bad = bad[:len(bad)-1] // the token itself
	bad = append(bad, token+"A", token+"=", "", strings.Repeat("A", link.Length), strings.Repeat("é", 35)+"x",
		token[:len(token)-1]+string(alphabet[strings.IndexByte(alphabet, token[len(token)-1])^1]), // bits that no byte takes
		strings.NewReplacer("-", "+", "_", "/").Replace(token)+"=")
	for _, forged := range bad {
		if forged == token {
			continue
		}
		if l, err := k.Open(forged, end); !errors.Is(err, link.ErrInvalid) {
			t.Errorf("%q opens %+v, %v", forged, l, err)
		}
	}
}

func TestWhatCannotBeSigned(t *testing.T) {
	t.Parallel()
	k := keys(t, "1:"+secret('a'))
	good := link.For(booking, customer, end)
	for name, tt := range map[string]struct {
		keys link.Keys
		link link.Link
	}{
		"no key":         {link.Keys{}, good},
		"no customer":    {k, link.For(booking, "", end)},
		"no booking":     {k, link.For("room-7", customer, end)},
		"before 1970":    {k, link.For(booking, customer, time.Time{})},
		"no time at all": {k, link.Link{Booking: booking, Customer: customer}},
	} {
		if token, err := tt.keys.Sign(tt.link); err == nil {
			t.Errorf("%s: %s", name, token)
		}
	}
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                   "",
		"1:" + secret('a'):   "",
		"255:" + secret('a'): "",
		"2:" + secret('b') + " , 1:" + secret('a'): "",
		secret('a'):                              "no id",
		"0:" + secret('a'):                       "no id",
		"256:" + secret('a'):                     "no id",
		"-1:" + secret('a'):                      "no id",
		"one:" + secret('a'):                     "no id",
		"1:" + secret('a') + ",":                 "number 2 has no id",
		"1:":                                     "0 bytes",
		"1:" + secret('a')[:40]:                  "at least 32",
		"1:" + secret('a') + "=":                 "no base64",
		"1:" + strings.Repeat("?", 44):           "no base64",
		"1:" + secret('a') + ",1:" + secret('b'): "two keys",
	} {
		k, err := link.ParseKeys(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if k.None() != (want != "" || text == "") {
			t.Errorf("%q: none is %t", text, k.None())
		}
		if err != nil && strings.Contains(err.Error(), "YWFh") {
			t.Errorf("the error repeats the key: %v", err)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	env := config.New("x", func(string) string { return "1:short" })
	if k := link.Read(env); !k.None() || env.Err() == nil || strings.Contains(env.Err().Error(), "short") {
		t.Errorf("mistakes: %v", env.Err())
	}
	if got := env.Fields()[0].String; got != "***" {
		t.Errorf("the log shows %s", got)
	}
}

func FuzzOpen(f *testing.F) {
	k := keys(f, "1:"+secret('a')+",200:"+secret('b'))
	good := sign(f, k, link.For(booking, customer, end))
	f.Add(good)
	f.Add(good[:70] + "\n")
	f.Add(strings.Repeat("A", link.Length))
	f.Add("yA" + good[2:])
	f.Fuzz(func(t *testing.T, token string) {
		l, err := k.Open(token, end)
		if err == nil && token != good {
			t.Errorf("%q opens %+v", token, l)
		}
		if err != nil && l != (link.Link{}) {
			t.Errorf("%v, and yet %+v", err, l)
		}
	})
}

func FuzzParseKeys(f *testing.F) {
	f.Add("2:" + secret('b') + ",1:" + secret('a'))
	f.Add("1:,")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := link.ParseKeys(text)
		if err != nil || k.None() {
			return
		}
		l := link.For(booking, customer, end)
		if got, err := k.Open(sign(t, k, l), end); err != nil || got != l {
			t.Errorf("%q signs %+v as %+v, %v", text, l, got, err)
		}
	})
}
