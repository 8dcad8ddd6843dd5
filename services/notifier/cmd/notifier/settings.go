package main

import (
	netmail "net/mail"
	"regexp"
	"strings"

	"github.com/slotwise/slotwise/pkg/bus"
	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/pkg/logs"
	"github.com/slotwise/slotwise/pkg/pgdb"
	"github.com/slotwise/slotwise/services/notifier/internal/send"
	"github.com/slotwise/slotwise/services/notifier/internal/sendlog"
	"go.uber.org/zap/zapcore"
)

type settings struct {
	level     zapcore.Level
	adminAddr string
	database  pgdb.Settings
	nats      bus.Settings
	smtp      send.Settings
	times     sendlog.Times
	from      netmail.Address // of every mail
	domain    string          // right part of every Message-ID
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
	s.from, s.domain = readSender(env)
	return s
}

// domainForm is what may stand behind the @ of a Message-ID.
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
