package bounce

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"strings"
)

// ErrNoReport says that there is no delivery status in a mail: it is an answer by machine, or
// spam.
var ErrNoReport = errors.New("there is no delivery status in it")

const (
	mostParts = 20       // of a multipart body that are looked at
	mostDepth = 4        // of multipart bodies in each other
	mostBytes = 64 << 10 // of a part that are read
	mostValue = 4 << 10  // of a field, where it is folded
)

// ReadMail reads a report as it arrived at the return path: a whole mail.
func ReadMail(mail []byte) (Report, error) {
	top, body := header(bytes.TrimLeft(mail, "\r\n"))
	f := finder{}
	for _, name := range []string{"delivered-to", "x-original-to", "envelope-to", "x-envelope-to", "to"} {
		f.report.about(top[name])
	}
	f.part(top["content-type"], top["content-transfer-encoding"], bytes.NewReader(body), 0)
	return f.found()
}

// ReadBody reads the body of such a mail, whose Content-Type is given.
func ReadBody(contentType string, body []byte) (Report, error) {
	f := finder{}
	f.part(contentType, "", bytes.NewReader(body), 0)
	return f.found()
}

// finder walks through a mail. What can't be read is passed over: a report that was cut off
// still tells what it tells.
type finder struct {
	report   Report
	statuses []fields
	returned fields // header of the mail that comes back
}

func (f *finder) part(contentType, encoding string, body io.Reader, depth int) {
	kind, params, _ := mime.ParseMediaType(contentType) // with an error the type at least, or nothing
	switch kind {
	case "message/delivery-status", "message/global-delivery-status": // RFC 3464, RFC 6533
		f.statuses = append(f.statuses, blocks(decoded(encoding, body))...)
	case "message/rfc822", "text/rfc822-headers", "message/global", "message/global-headers":
		if f.returned == nil {
			f.returned, _ = header(decoded(encoding, body))
		}
	default:
		if strings.HasPrefix(kind, "multipart/") && depth < mostDepth {
			f.parts(multipart.NewReader(body, params["boundary"]), depth)
		}
	}
}

func (f *finder) parts(parts *multipart.Reader, depth int) {
	for range mostParts {
		part, err := parts.NextRawPart()
		if err != nil { // the end, or what was cut off
			return
		}
		f.part(part.Header.Get("Content-Type"), part.Header.Get("Content-Transfer-Encoding"), part, depth+1)
	}
}

// decoded is the beginning of a part, as far as it can be read.
func decoded(encoding string, body io.Reader) []byte {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	}
	text, _ := io.ReadAll(io.LimitReader(body, mostBytes)) // with an error what came before it
	return text
}

// found is the report about the recipient who fared worst: our mails have one, a list or a
// forwarder may have made more of it.
func (f *finder) found() (Report, error) {
	rank := map[Type]int{None: 1, Soft: 2, Hard: 3}
	isReport := false
	for _, s := range f.statuses {
		f.report.about(s["original-envelope-id"])
		f.report.about(s["x-postfix-sender"])
		typ, ok := s.typ()
		if ok && rank[typ] > rank[f.report.Type] {
			f.report.told(typ, s["final-recipient"], s["status"], s["diagnostic-code"])
		}
		isReport = isReport || ok
	}
	if !isReport {
		return Report{}, ErrNoReport
	}
	f.report.about(f.returned["return-path"])
	f.report.about(f.returned["message-id"])
	return f.report, nil
}

// typ is what a block of a delivery status says of its recipient. False: it is about none.
func (s fields) typ() (Type, bool) {
	switch action, _, _ := strings.Cut(strings.ToLower(s["action"]), " "); action { // a comment may follow
	case "failed":
		return Hard, true
	case "delayed":
		return Soft, true
	case "delivered", "relayed", "expanded":
		return None, true
	}
	if s["final-recipient"] == "" && s["original-recipient"] == "" {
		return "", false
	}
	switch class, _, _ := strings.Cut(s["status"], "."); class {
	case "5":
		return Hard, true
	case "4":
		return Soft, true
	case "2":
		return None, true
	}
	return "", false
}

// fields are header fields by their names in small letters. Of several of one name the first
// counts.
type fields map[string]string

// blocks reads fields in blocks that empty lines divide (RFC 3464 §2.1). Lines that are none
// are passed over.
func blocks(text []byte) []fields {
	var all []fields
	for len(text) > 0 {
		var block fields
		if block, text = header(text); len(block) > 0 {
			all = append(all, block)
		}
	}
	return all
}

// header reads the fields up to the first empty line, and returns what is behind it.
func header(text []byte) (block fields, rest []byte) {
	block = fields{}
	last := "" // the field that a folded line goes on with
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		line = bytes.TrimRight(line, "\r")
		if len(line) == 0 {
			return block, text
		}
		if line[0] == ' ' || line[0] == '\t' {
			if value, folded := block[last]; folded && len(value) < mostValue {
				block[last] = value + " " + string(bytes.TrimSpace(line))
			}
			continue
		}
		name, value, isField := strings.Cut(string(line), ":")
		name = strings.ToLower(strings.TrimSpace(name))
		if _, again := block[name]; !isField || again {
			last = ""
			continue
		}
		block[name] = strings.TrimSpace(value)
		last = name
	}
	return block, nil
}
