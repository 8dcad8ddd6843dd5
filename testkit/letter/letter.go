// Package letter reads a raw mail (RFC 5322, MIME) into what a test or a person looks at:
// decoded headers, addresses, the text and HTML parts and the attachments.
package letter

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"time"
)

// Letter is one mail. Fields whose header is missing or can't be read are empty.
type Letter struct {
	Header    mail.Header // as it was sent: values not decoded
	MessageID string      // without <>
	Subject   string      // decoded
	From      mail.Address
	To        []*mail.Address
	Cc        []*mail.Address
	ReplyTo   []*mail.Address
	Date      time.Time
	Text      string // the first text/plain part
	HTML      string // the first text/html part
	Parts     []Part // all parts in order, text and HTML among them
}

// Part is one part of a mail; a mail that is not multipart has one.
type Part struct {
	Type   string            // lower case, such as text/calendar
	Params map[string]string // of Content-Type
	Name   string            // file name, "" when it has none
	Body   []byte            // decoded
}

// depth bounds how far multiparts may be nested.
const depth = 10

// Parse reads a mail. What it understood is returned beside an error.
func Parse(raw []byte) (Letter, error) {
	msg, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return Letter{}, fmt.Errorf("read mail: %w", err)
	}
	l := Letter{Header: msg.Header, MessageID: strings.Trim(msg.Header.Get("Message-Id"), "<> ")}
	l.Subject = decode(msg.Header.Get("Subject"))
	if from := addresses(msg.Header, "From"); len(from) > 0 {
		l.From = *from[0]
	}
	l.To, l.Cc, l.ReplyTo = addresses(msg.Header, "To"), addresses(msg.Header, "Cc"), addresses(msg.Header, "Reply-To")
	l.Date, _ = msg.Header.Date() // zero when there is none
	l.Parts, err = parts(msg.Header.Get, msg.Body, depth)
	for _, p := range l.Parts {
		switch {
		case p.Type == "text/plain" && l.Text == "":
			l.Text = string(p.Body)
		case p.Type == "text/html" && l.HTML == "":
			l.HTML = string(p.Body)
		}
	}
	return l, err
}

// decode reads RFC 2047 words; text that has none, or bad ones, stays as it is.
func decode(header string) string {
	decoded, err := new(mime.WordDecoder).DecodeHeader(header)
	if err != nil {
		return header
	}
	return decoded
}

func addresses(h mail.Header, name string) []*mail.Address {
	list, err := h.AddressList(name)
	if err != nil {
		return nil
	}
	return list
}

// parts reads a body and the parts in it.
func parts(header func(string) string, body io.Reader, depth int) ([]Part, error) {
	kind, params, err := mime.ParseMediaType(header("Content-Type"))
	if err != nil {
		kind = "text/plain" // RFC 2045 §5.2
	}
	if !strings.HasPrefix(kind, "multipart/") {
		content, err := io.ReadAll(decoder(header("Content-Transfer-Encoding"), body))
		if err != nil {
			return nil, fmt.Errorf("read part %s: %w", kind, err)
		}
		_, disposition, _ := mime.ParseMediaType(header("Content-Disposition")) // no name when it can't be read
		return []Part{{Type: kind, Params: params, Name: disposition["filename"], Body: content}}, nil
	}
	if depth == 0 {
		return nil, errors.New("too many nested parts")
	}
	var all []Part
	for r := multipart.NewReader(body, params["boundary"]); ; {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, fmt.Errorf("read parts of %s: %w", kind, err)
		}
		inner, err := parts(p.Header.Get, p, depth-1)
		all = append(all, inner...)
		if err != nil {
			return all, err
		}
	}
}

func decoder(encoding string, body io.Reader) io.Reader {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "base64":
		return base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		return quotedprintable.NewReader(body)
	}
	return body
}
