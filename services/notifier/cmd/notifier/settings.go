package main

import (
	"fmt"
	netmail "net/mail"
	"net/url"
	"regexp"
	"strings"

	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/pkg/link"
	"github.com/slotwise/slotwise/pkg/logs"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/services/notifier/internal/mail"
	"github.com/slotwise/slotwise/services/notifier/internal/send"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"github.com/slotwise/slotwise/services/notifier/internal/webhook"
	"go.uber.org/zap/zapcore"
)

type settings struct {
	level     zapcore.Level
	adminAddr string
	database  pgdb.Settings
	nats      bus.Settings
	smtp      send.Settings
	webhooks  webhook.Settings
	times     sendlog.Times
	from      netmail.Address // of every mail
	domain    string          // right part of every Message-ID
	links     mail.Links      // in customers' mails
	bounces   bounces
	front     front
}

// bounces say where reports of mails that did not arrive come in.
type bounces struct {
	secret string // empty: none are taken
	domain string // of return paths; empty: all mails have the same
}

func readSettings(env *config.Reader) settings {
	s := settings{
		adminAddr: env.String("ADMIN_ADDR", ":9090", "where probes and metrics are"),
		level:     logs.Read(env),
		database:  pgdb.Read(env, "notifier", 12),
		nats:      bus.Read(env, "notifier"),
		smtp:      send.Read(env),
		times:     sendlog.ReadTimes(env),
	}
	s.webhooks = webhook.Read(env, s.smtp.Drain)
	s.from, s.domain = readSender(env)
	s.links = readLinks(env)
	s.bounces = readBounces(env)
	s.front = readFront(env)
	return s
}

// readLinks reads PUBLIC_URL and LINK_KEYS. One without the other is a mistake: mails without the
// links that somebody meant to have would not be noticed.
func readLinks(env *config.Reader) mail.Links {
	l := mail.Links{Base: env.String("PUBLIC_URL", "", "where customers reach the booking service, such as https://book.example.org, for the links in their mails; without it, and LINK_KEYS, mails have none")}
	l.Keys = link.Read(env)
	if (l.Base == "") != l.Keys.None() {
		env.Mistake("PUBLIC_URL", "and LINK_KEYS must be set together")
	}
	if l.Base == "" {
		return l
	}
	u, err := url.Parse(l.Base)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		env.Mistake("PUBLIC_URL", "must begin with https:// or http:// and hold a host, and a path at most")
		return mail.Links{}
	}
	l.Base = strings.TrimRight(u.String(), "/")
	return l
}

// leastSecret is how many characters nobody guesses.
const leastSecret = 16

func readBounces(env *config.Reader) bounces {
	b := bounces{
		secret: env.Secret("BOUNCE_SECRET", "bearer token of who delivers reports of bounces to POST /v1/bounces; without it none are taken"),
		domain: env.String("BOUNCE_DOMAIN", "", "domain whose mail to b+…@ comes back as such reports; each mail then has a return path there; by default all have MAIL_FROM's address"),
	}
	if b.secret != "" && len(b.secret) < leastSecret {
		env.Mistake("BOUNCE_SECRET", fmt.Sprintf("must have at least %d characters", leastSecret))
	}
	if b.domain != "" && (!domainForm.MatchString(b.domain) || len(b.domain) > 190) { // 254 with the local part
		env.Mistake("BOUNCE_DOMAIN", "must be a domain, such as bounces.example.org")
	}
	return b
}

// domainForm is what may stand behind an @.
var domainForm = regexp.MustCompile(`^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$`)

// readSender reads MAIL_FROM and MAIL_DOMAIN.
func readSender(env *config.Reader) (from netmail.Address, domain string) {
	text := env.Required("MAIL_FROM", "who the mails are from, as Name <address@domain>")
	domain = env.String("MAIL_DOMAIN", "", "right part of the Message-IDs; by default the domain of MAIL_FROM")
	if text == "" {
		return netmail.Address{}, ""
	}
	parsed, err := netmail.ParseAddress(text)
	if err != nil || strings.ContainsFunc(parsed.Address, func(r rune) bool { return r <= ' ' || r > '~' }) {
		env.Mistake("MAIL_FROM", "must be a mailbox, such as Slotwise <bookings@example.org>, with an address in ASCII")
		return netmail.Address{}, ""
	}
	if domain == "" {
		domain = parsed.Address[strings.LastIndex(parsed.Address, "@")+1:]
	}
	if !domainForm.MatchString(domain) || len(domain) > 253 {
		env.Mistake("MAIL_DOMAIN", "must be a domain, such as example.org")
	}
	return *parsed, domain
}
