package mail

import (
	"cmp"
	"net/url"

	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
)

// endpointDisabled tells the owner of a webhook endpoint that it was disabled, and what to do.
func endpointDisabled(h sendlog.Hand) content {
	place, host := bareURL(h.EndpointURL)
	c := content{
		Subject:  "Webhook endpoint disabled: " + cmp.Or(host, h.Endpoint),
		Heading:  "A webhook endpoint of yours is disabled",
		Greeting: "Hello,",
		Lead:     "It gets no more webhooks until somebody enables it. What comes meanwhile is kept, and is delivered then.",
		Closing:  closing(h, false),
	}
	add := func(label string, lines ...string) { c.Rows = append(c.Rows, row{label, lines}) }
	add("Endpoint", h.Endpoint)
	if place != "" {
		add("URL", place)
	}
	if about := line(h.EndpointAbout); about != "" {
		add("Description", about)
	}
	add("Reason", line(h.Facts.Why))
	add("To do", "Have the receiver answer 2xx within 15 seconds, or give the endpoint another URL.", "Then have it enabled: slotwise webhooks enable "+h.Endpoint)
	return c
}

// bareURL is an endpoint's URL without its query, which may hold a password, and its host.
func bareURL(raw string) (bare, host string) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", ""
	}
	u.RawQuery, u.Fragment, u.User = "", "", nil
	return line(u.String()), line(u.Host)
}
