package bounce

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Provider is what a provider's webhook tells, in the one form that we read: where a provider
// has another, something small between it and us makes this of it.
type Provider struct {
	MessageID  string `json:"message_id"`  // of the mail; it or the return path is needed
	ReturnPath string `json:"return_path"` // envelope sender of the mail
	Recipient  string `json:"recipient"`   // address that it is about
	Status     string `json:"status"`      // enhanced status code, such as 5.1.1
	Diagnostic string `json:"diagnostic"`  // the server's words
	Type       Type   `json:"type"`        // hard or soft; without it the status decides
}

// errProvider says what is wrong with a provider's report.
var errProvider = errors.New("no report of a provider")

// ReadProvider reads a provider's report.
func ReadProvider(body []byte) (Report, error) {
	var p Provider
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return Report{}, fmt.Errorf("%w: %w", errProvider, err)
	}
	if decoder.More() {
		return Report{}, fmt.Errorf("%w: there is more behind it", errProvider)
	}
	if p.MessageID == "" && p.ReturnPath == "" {
		return Report{}, fmt.Errorf("%w: message_id and return_path are missing", errProvider)
	}
	if p.Type == "" {
		p.Type, _ = fields{"final-recipient": "told", "status": p.Status}.typ()
	}
	if p.Type != Hard && p.Type != Soft {
		return Report{}, fmt.Errorf("%w: type must be hard or soft, or status a code of class 5 or 4", errProvider)
	}
	var r Report
	r.about(p.ReturnPath)
	r.about(p.MessageID)
	r.told(p.Type, p.Recipient, p.Status, p.Diagnostic)
	return r, nil
}
