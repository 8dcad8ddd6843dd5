package send

import (
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"regexp"
	"time"

	"github.com/slotwise/slotwise/pkg/config"
)

// Policy is what happens when a server offers no TLS.
type Policy string

// The policies for smtp:// servers; smtps:// is always encrypted.
const (
	Mandatory     Policy = "mandatory"     // no STARTTLS, no mail
	Opportunistic Policy = "opportunistic" // STARTTLS where it is offered; never a password in clear
	NoTLS         Policy = "none"          // everything in clear, the password too
)

// Settings say which server takes the mails, and how many at once.
type Settings struct {
	Server      *url.URL
	TLS         Policy
	CAs         *x509.CertPool // nil: the system's
	Hello       string         // name in EHLO
	Connections int
	Rate        int           // mails of the backlog a second; 0: no limit
	Drain       time.Duration // that dialogues get after SIGTERM

	Temporary *regexp.Regexp // a 5xx answer that matches is tried again; nil: none
	Final     *regexp.Regexp // a 4xx answer that matches refuses the mail; nil: none
}

// Read reads the SMTP_ settings, SEND_RATE and DRAIN.
func Read(env *config.Reader) Settings {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = "localhost"
	}
	return Settings{
		Server: env.URL("SMTP_URL", "", "mail server, as smtp://user:password@host:port (587) or smtps://… (465)", "smtp", "smtps"),
		TLS: Policy(env.Choice("SMTP_TLS", "STARTTLS to smtp:// servers",
			string(Mandatory), string(Opportunistic), string(NoTLS))),
		CAs:         readCAs(env),
		Hello:       env.String("SMTP_HELO", hostname, "name that the mail server is greeted with"),
		Connections: env.Int("SMTP_CONNECTIONS", 4, 1, 1000, "most connections to the mail server"),
		Rate:        env.Int("SEND_RATE", 20, 0, 100_000, "mails a second of what is past due by ten minutes, after an outage; 0: no limit"),
		Drain:       env.Duration("DRAIN", 30*time.Second, 0, time.Hour, "time that mails in hand get after SIGTERM"),
		Temporary:   readPattern(env, "SMTP_TEMPORARY", `(?i)try (again )?later|rate limit|too many|greylist|temporar`, "a 5xx answer that matches this regular expression is tried again"),
		Final:       readPattern(env, "SMTP_FINAL", `(?i)user unknown|no such user|does not exist`, "a 4xx answer that matches this regular expression refuses the mail"),
	}
}

func readCAs(env *config.Reader) *x509.CertPool {
	const name = "SMTP_CA_FILE"
	file := env.String(name, "", "PEM file with the authorities that may sign the mail server's certificate; by default the system's")
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		env.Mistake(name, "can't be read")
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		env.Mistake(name, "holds no certificate in PEM form")
	}
	return pool
}

func readPattern(env *config.Reader, name, fallback, about string) *regexp.Regexp {
	pattern, err := regexp.Compile(env.String(name, fallback, about))
	if err != nil {
		env.Mistake(name, "is no regular expression: "+err.Error())
		return nil
	}
	return pattern
}

// address is the server's host and port.
func (s Settings) address() string {
	port := s.Server.Port()
	if port == "" {
		port = "587" // submission (RFC 6409)
		if s.Server.Scheme == "smtps" {
			port = "465" // RFC 8314 §3.3
		}
	}
	return net.JoinHostPort(s.Server.Hostname(), port)
}
