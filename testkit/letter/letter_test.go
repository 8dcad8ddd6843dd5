package letter_test

import (
	"strings"
	"testing"

	"github.com/slotwise/slotwise/testkit/letter"
)

var invitation = strings.ReplaceAll(`From: =?utf-8?q?Caf=C3=A9?= <cafe@example.org>
To: Ann <ann@example.org>, bob@example.org
Reply-To: host@example.org
Subject: =?utf-8?q?K=C3=BCrz?= is =?utf-8?b?4pyT?=
Message-ID: <one@slotwise.example>
Date: Tue, 01 Dec 2026 09:00:00 +0100
Content-Type: multipart/mixed; boundary=outer

--outer
Content-Type: multipart/alternative; boundary="in ner"

--in ner
Content-Type: text/plain; charset=UTF-8
Content-Transfer-Encoding: quoted-printable

soft=
 break =C3=BC
--in ner
Content-Type: text/html
Content-Transfer-Encoding: base64

PGI+
aGk8L2I+
--in ner--

--outer
Content-Type: text/calendar; method=REQUEST
Content-Disposition: attachment; filename="invite.ics"

BEGIN:VCALENDAR
--outer--
`, "\n", "\r\n")

func TestParse(t *testing.T) {
	l, err := letter.Parse([]byte(invitation))
	if err != nil {
		t.Fatal(err)
	}
	for what, pair := range map[string][2]string{
		"subject":    {l.Subject, "Kürz is ✓"},
		"from":       {l.From.String(), `=?utf-8?q?Caf=C3=A9?= <cafe@example.org>`},
		"to":         {l.To[0].Address + l.To[1].Address, "ann@example.orgbob@example.org"},
		"reply-to":   {l.ReplyTo[0].Address, "host@example.org"},
		"message id": {l.MessageID, "one@slotwise.example"},
		"date":       {l.Date.UTC().Format("15:04"), "08:00"},
		"text":       {l.Text, "soft break ü"},
		"html":       {l.HTML, "<b>hi</b>"},
		"file":       {l.Parts[2].Name + " " + l.Parts[2].Type + " " + l.Parts[2].Params["method"], "invite.ics text/calendar REQUEST"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %q, want %q", what, pair[0], pair[1])
		}
	}
}

func TestParseWithoutMIME(t *testing.T) {
	l, err := letter.Parse([]byte("Subject: plain\r\n\r\nhello\r\n"))
	if err != nil || l.Text != "hello\r\n" || l.Subject != "plain" || l.From.Address != "" {
		t.Errorf("Parse = %+v, %v", l, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(invitation))
	f.Add([]byte("Subject: =?utf-8?q?"))
	f.Add([]byte("Content-Type: multipart/mixed; boundary=\"\"\r\n\r\n--\r\n"))
	f.Fuzz(func(_ *testing.T, raw []byte) {
		_, _ = letter.Parse(raw) // must return
	})
}
