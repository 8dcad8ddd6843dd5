package bounce_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/services/notifier/internal/bounce"
)

var update = flag.Bool("update", false, "write the golden files")

// samples are the mails in testdata, by their names.
func samples(tb testing.TB) map[string][]byte {
	tb.Helper()
	files, err := filepath.Glob("testdata/*.eml")
	if err != nil || len(files) == 0 {
		tb.Fatalf("%d samples: %v", len(files), err)
	}
	all := map[string][]byte{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".eml")] = text
	}
	return all
}

// Reports as servers write them, and what is read in them: read in review.
func TestReadMail(t *testing.T) {
	var got bytes.Buffer
	files, err := filepath.Glob("testdata/*.eml")
	if err != nil {
		t.Fatal(err)
	}
	all := samples(t)
	for _, file := range files { // sorted
		name := strings.TrimSuffix(filepath.Base(file), ".eml")
		for _, ends := range []string{"\r\n", "\n"} { // as SMTP has it, and as a pipe does
			r, err := bounce.ReadMail(bytes.ReplaceAll(all[name], []byte("\r\n"), []byte(ends)))
			text, jsonErr := json.MarshalIndent(r, "", "  ")
			if jsonErr != nil {
				t.Fatal(jsonErr)
			}
			if err != nil {
				text = []byte(err.Error())
			}
			if ends == "\r\n" {
				fmt.Fprintf(&got, "%s for good: %t\n%s\n\n", name, r.ForGood(), text)
			} else if !bytes.HasSuffix(got.Bytes(), append(text, "\n\n"...)) {
				t.Errorf("%s is read otherwise with other line ends: %s", name, text)
			}
		}
	}
	const file = "testdata/reports.golden"
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("reports differ from %s (write it with -update):\n%s", file, &got)
	}
}

// The body alone tells the same, but for whom the report was sent to.
func TestReadBody(t *testing.T) {
	mail := samples(t)["exim-refused"]
	_, body, _ := bytes.Cut(mail, []byte("\r\n\r\n"))
	r, err := bounce.ReadBody("multipart/report; report-type=delivery-status; boundary=1796115603-eximdsn-1804289383", body)
	if err != nil || r.Type != bounce.Hard || r.Status != "5.1.1" || len(r.Keys) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, contentType := range []string{"multipart/report", "multipart/report; boundary=other", "multipart/report; boundary"} {
		if _, err := bounce.ReadBody(contentType, body); !errors.Is(err, bounce.ErrNoReport) {
			t.Errorf("%s: %v", contentType, err)
		}
	}
}

// The fields of a delivery status, as servers vary them.
func TestDeliveryStatus(t *testing.T) {
	tests := map[string]struct {
		status string
		want   bounce.Report
	}{
		"one block for all":          {"Reporting-MTA: dns; a\nFinal-Recipient: rfc822; <a@x.example>\nAction: Failed\nStatus: 5.1.1", bounce.Report{Type: bounce.Hard, Address: "a@x.example", Status: "5.1.1", Words: "status 5.1.1"}},
		"no action":                  {"Final-Recipient: rfc822;a@x.example\nStatus: 5.2.1", bounce.Report{Type: bounce.Hard, Address: "a@x.example", Status: "5.2.1", Words: "status 5.2.1"}},
		"no action, for now":         {"Final-Recipient: rfc822;a@x.example\nStatus: 4.2.1", bounce.Report{Type: bounce.Soft, Address: "a@x.example", Status: "4.2.1", Words: "status 4.2.1"}},
		"delayed, with a final code": {"Final-Recipient: rfc822;a@x.example\nAction: delayed\nStatus: 5.1.1", bounce.Report{Type: bounce.Soft, Address: "a@x.example", Status: "5.1.1", Words: "status 5.1.1"}},
		"given up":                   {"Final-Recipient: rfc822;a@x.example\nAction: failed\nStatus: 4.4.7\nDiagnostic-Code: smtp;550 4.4.7 QUEUE.Expired; message expired", bounce.Report{Type: bounce.Hard, Address: "a@x.example", Status: "4.4.7", Words: "550 4.4.7 QUEUE.Expired; message expired"}},
		"no reason":                  {"Action: failed", bounce.Report{Type: bounce.Hard, Words: "no reason given"}},
		"code in the reply only":     {"Action: failed\nDiagnostic-Code: smtp; 550-5.1.1 The email account\n 550 5.1.1 does not exist", bounce.Report{Type: bounce.Hard, Status: "5.1.1", Words: "550-5.1.1 The email account 550 5.1.1 does not exist"}},
		"code beats the reply":       {"Action: failed\nStatus: 5.7.1\nDiagnostic-Code: smtp; 550 5.1.1 x", bounce.Report{Type: bounce.Hard, Status: "5.7.1", Words: "550 5.1.1 x"}},
		"an address is no code":      {"Action: failed\nDiagnostic-Code: smtp; 550 5.1.1.9 is on a list", bounce.Report{Type: bounce.Hard, Words: "550 5.1.1.9 is on a list"}},
		"a local user":               {"Final-Recipient: LOCAL;ada\nAction: failed\nStatus: 5.1.1", bounce.Report{Type: bounce.Hard, Status: "5.1.1", Words: "status 5.1.1"}},
		"lines that are none":        {"hello\n:\n: x\nFinal-Recipient: rfc822;a@x.example\nhm\n and more\nAction: failed", bounce.Report{Type: bounce.Hard, Address: "a@x.example", Words: "no reason given"}},
		"addresses in the words":     {"Action: failed\nDiagnostic-Code: smtp; 550 <Ada.L+x@X.example>, 'b@y.example': no (c@z.example)", bounce.Report{Type: bounce.Hard, Words: "550 <(address)>, '(address)': no ((address))"}},
	}
	for name, tt := range tests {
		for _, ends := range []string{"\n", "\r\n"} {
			body := "--b\nContent-Type: message/delivery-status\n\n" + tt.status + "\n\n--b--\n"
			got, err := bounce.ReadBody("multipart/report; boundary=b", []byte(strings.ReplaceAll(body, "\n", ends)))
			if err != nil || fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("%s: %+v, %v\nwant %+v", name, got, err, tt.want)
			}
		}
	}
}

// Whatever comes in, reading ends, and what is kept fits its columns.
func FuzzReadMail(f *testing.F) {
	for _, mail := range samples(f) {
		f.Add(mail)
	}
	f.Fuzz(func(t *testing.T, mail []byte) {
		r, err := bounce.ReadMail(mail)
		if err == nil {
			check(t, r)
		}
	})
}

func FuzzReadProvider(f *testing.F) {
	for _, body := range providers {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := bounce.ReadProvider(body)
		if err == nil {
			check(t, r)
		}
	})
}
