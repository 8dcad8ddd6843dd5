package mail

import (
	"embed"
	"fmt"
	html "html/template"
	"strconv"
	"strings"
	text "text/template"

	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

// content is what a mail says; the templates only lay it out.
type content struct {
	Subject  string
	Heading  string
	Greeting string
	Lead     string
	Rows     []row
	Link     *door
	Closing  string
}

// door is the customer's link, with what it is for and what to know about it.
type door struct{ Label, URL, Hint string }

type row struct {
	Label string
	Lines []string
}

// wording is what differs between kinds of mails. The subject is followed by what and when.
type wording struct{ subject, heading, lead string }

var words = map[sendlog.Role]map[sendlog.Kind]wording{
	sendlog.Customer: {
		sendlog.Confirm:  {"Confirmed", "Your booking is confirmed", "This is what we have down for you:"},
		sendlog.Move:     {"Moved", "Your booking has been moved", "This is the new time:"},
		sendlog.Cancel:   {"Cancelled", "Your booking is cancelled", "This booking will not take place:"},
		sendlog.Reminder: {"Reminder", "Your booking is coming up", "We look forward to seeing you:"},
	},
	sendlog.Host: {
		sendlog.Confirm: {"Booking confirmed", "A booking is confirmed", "This is what your customer has booked:"},
		sendlog.Move:    {"Booking moved", "A booking has been moved", "This is the new time:"},
		sendlog.Cancel:  {"Booking cancelled", "A booking is cancelled", "This booking will not take place:"},
		sendlog.Notice: {
			"Not delivered", "As far as we know, a mail to your customer did not arrive",
			"Please get in touch with your customer in another way, and have the address corrected if it is wrong.",
		},
	},
}

// compose says what h tells. A move is the first news of a customer who never got a
// confirmation, and is worded as one.
func (r Renderer) compose(h sendlog.Hand) (content, error) {
	if h.Kind == sendlog.Notice && h.Endpoint != "" {
		return endpointDisabled(h), nil
	}
	kind := h.Kind
	if kind == sendlog.Move && h.FirstNews {
		kind = sendlog.Confirm
	}
	w, ok := words[h.Role][kind]
	if !ok {
		return content{}, fmt.Errorf("no mail of kind %q for role %q", h.Kind, h.Role)
	}
	when, err := inZone(h.Facts.Start, h.Facts.End, h.Facts.Zone)
	if err != nil {
		return content{}, err
	}
	what := line(h.ResourceName)
	if what == "" {
		what = h.Facts.Resource
	}
	return content{
		Subject:  fmt.Sprintf("%s: %s, %s", w.subject, what, when.short()),
		Heading:  w.heading,
		Greeting: greeting(h),
		Lead:     w.lead,
		Rows:     rows(h, what, when),
		Link:     r.door(h),
		Closing:  closing(h, r.Links.of(h) != ""),
	}, nil
}

func (r Renderer) door(h sendlog.Hand) *door {
	url := r.Links.of(h)
	switch {
	case url == "":
		return nil
	case h.Kind == sendlog.Cancel:
		return &door{Label: "See your booking", URL: url}
	}
	return &door{
		Label: "See, move or cancel your booking", URL: url,
		Hint: "Whoever has this link can do so too: leave it out when you pass this mail on.",
	}
}

func greeting(h sendlog.Hand) string {
	if name := line(h.Name); h.Role == sendlog.Customer && name != "" {
		return "Hello " + name + ","
	}
	return "Hello,"
}

func rows(h sendlog.Hand, what string, when span) []row {
	var all []row
	add := func(label string, lines ...string) { all = append(all, row{label, lines}) }
	if h.Kind == sendlog.Notice {
		add("Mail", subjectOf(h.Facts.About))
		add("Reason", line(h.Facts.Why))
	}
	add("What", what)
	add("When", when.lines()...)
	add("Seats", strconv.Itoa(h.Facts.Seats))
	if h.Role == sendlog.Host {
		add("Who", line(h.Name), line(h.Address))
	}
	if note := lines(h.Note); note[0] != "" {
		add("Note", note...)
	}
	add("Reference", h.Booking)
	return all
}

// subjectOf names the mail that a notice is about, whose key tells its kind.
func subjectOf(key string) string {
	for prefix, name := range map[string]string{
		"email-confirm-": "the confirmation",
		"email-move-":    "the new time",
		"email-cancel-":  "the cancellation",
		"reminder-":      "the reminder",
	} {
		if strings.HasPrefix(key, prefix) {
			return name
		}
	}
	return key
}

// closing tells what an answer does.
func closing(h sendlog.Hand, linked bool) string {
	_, reply, err := addresses(h)
	switch {
	case err != nil || reply == nil:
		return "This mail was sent automatically. Nobody reads answers to it."
	case h.Role == sendlog.Host:
		return "Your answer to this mail goes to the customer."
	case h.Kind == sendlog.Cancel, linked:
		return "Questions? Reply to this mail."
	}
	return "To change or cancel, reply to this mail."
}

//go:embed templates
var templates embed.FS

var (
	textLayout = text.Must(text.ParseFS(templates, "templates/mail.txt.tmpl"))
	htmlLayout = html.Must(html.ParseFS(templates, "templates/mail.html.tmpl"))
)

func (c content) bodies() (plain, markup string, err error) {
	var b strings.Builder
	if err := textLayout.Execute(&b, c); err != nil {
		return "", "", fmt.Errorf("lay out text: %w", err)
	}
	plain = b.String()
	b.Reset()
	if err := htmlLayout.Execute(&b, c); err != nil {
		return "", "", fmt.Errorf("lay out HTML: %w", err)
	}
	return plain, b.String(), nil
}
