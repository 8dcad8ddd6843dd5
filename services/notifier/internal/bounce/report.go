package bounce

import (
	"regexp"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/services/notifier/internal/suppress"
)

// Type is what a report says.
type Type string

// The types, the worst last.
const (
	None Type = "none" // delivered, relayed or expanded: nothing that anybody must know
	Soft Type = "soft" // not delivered yet: somebody behind our mail server tries on
	Hard Type = "hard" // not delivered, and nobody tries any more
)

// Report is what came back for one mail.
type Report struct {
	Keys    []string `json:"keys"`              // of messages that it may be about, the most certain first
	Type    Type     `json:"type"`              //
	Address string   `json:"address,omitempty"` // that it is about; empty: it does not say
	Status  string   `json:"status,omitempty"`  // enhanced status code (RFC 3463), the remote server's if it is told
	Words   string   `json:"words"`             // for people, on one line; no address in it
}

// ForGood reports whether no mail should go to the address any more.
func (r Report) ForGood() bool { return r.Type == Hard && suppress.Code(r.Status) }

// about adds a text that may name the message.
func (r *Report) about(text string) {
	if key, ok := named(text); ok && !slices.Contains(r.Keys, key) {
		r.Keys = append(r.Keys, key)
	}
}

// told fills in what happened, from the fields of a delivery status or their like.
func (r *Report) told(typ Type, address, status, diagnostic string) {
	r.Type, r.Address, r.Status = typ, mailbox(address), enhanced(status, diagnostic)
	r.Words = words(diagnostic)
	switch {
	case r.Words == "" && r.Status != "":
		r.Words = "status " + r.Status
	case r.Words == "":
		r.Words = "no reason given"
	}
}

var (
	statusForm = regexp.MustCompile(`^[245]\.\d{1,3}\.\d{1,3}\b`)
	// inReply finds the code in a reply of SMTP, such as "smtp; 550-5.1.1 no such user".
	inReply = regexp.MustCompile(`\b[245]\d\d[ -]([245]\.\d{1,3}\.\d{1,3})(?:[^.\d]|$)`)
)

// enhanced is the status code; where a server tells only its class, as Exim does (5.0.0), that
// of the reply that it quotes.
func enhanced(status, diagnostic string) string {
	code := statusForm.FindString(strings.TrimSpace(status))
	if code == "" || strings.HasSuffix(code, ".0.0") {
		if quoted := inReply.FindStringSubmatch(diagnostic); quoted != nil {
			return quoted[1]
		}
	}
	return code
}

// mailbox is the address in a field such as "rfc822; ada@example.org" (RFC 3464 §2.3.2), or
// empty.
func mailbox(field string) string {
	if _, address, typed := strings.Cut(field, ";"); typed {
		field = address
	}
	field = strings.Trim(strings.TrimSpace(field), "<>")
	strange := strings.ContainsFunc(field, func(r rune) bool { return r <= ' ' || r > '~' }) // in no address of ours
	if !strings.Contains(field, "@") || strange || len(field) > 254 {
		return ""
	}
	return field
}

// maxWords is how many bytes of a diagnostic are kept: less than a reason may have.
const maxWords = 900

var (
	someAddress = regexp.MustCompile(`[^\s<>()\[\]:;,"']+@[^\s<>()\[\]:;,"']+`)
	smtpType    = regexp.MustCompile(`(?i)^\s*(?:x-[\w-]+|smtp)\s*;`)
)

// words makes a diagnostic fit to be kept: one line of valid text, without addresses.
func words(diagnostic string) string {
	text := strings.Join(strings.FieldsFunc(strings.ToValidUTF8(diagnostic, "?"), func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	text = someAddress.ReplaceAllLiteralString(smtpType.ReplaceAllLiteralString(text, ""), "(address)")
	if text = strings.TrimSpace(text); len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "…"
	}
	return text
}
