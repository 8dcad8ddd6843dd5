package stack

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// taken are settings whose meaning for the stack differs from that for a service.
var taken = []string{"DATABASE_URL", "NATS_URL", "SMTP_URL", "NATS_NKEY_FILE", "HTTP_ADDR", "ADMIN_ADDR"}

// plainEnv is the stack's own environment without what it decides itself: a person sets
// REMINDER_LEAD or LOG_LEVEL for all services at once.
func plainEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.Contains(taken, name)
	})
}

func (s *Stack) natsEnv(user string) []string {
	return []string{"NATS_URL=" + s.NATSURL(), "NATS_NKEY_FILE=" + s.keys.SeedFile(user)}
}

// serviceEnv are the settings of a copy of the service that is called name.
func (s *Stack) serviceEnv(name, service string) []string {
	env := append(s.natsEnv(service),
		"DATABASE_URL="+s.db.url("slotwise_"+service),
		"ADMIN_ADDR="+s.admin[name],
		"DRAIN="+s.config.Drain.String(),
		"DRAIN_LAG=0s",
	)
	if addr := s.front[name]; addr != "" {
		env = append(env, "HTTP_ADDR="+addr)
	}
	if service == "notifier" {
		env = append(env, s.mailEnv()...)
	}
	if (service == "booking" || service == "notifier") && os.Getenv("LINK_KEYS") == "" {
		env = append(env, "LINK_KEYS="+s.linkKeys)
	}
	for name, value := range s.config.Env {
		env = append(env, name+"="+value)
	}
	return env
}

func (s *Stack) mailEnv() []string {
	var env []string
	if os.Getenv("MAIL_FROM") == "" {
		env = append(env, "MAIL_FROM=Slotwise <bookings@slotwise.example>")
	}
	if os.Getenv("PUBLIC_URL") == "" {
		env = append(env, "PUBLIC_URL=http://"+s.config.addr(s.config.HTTP))
	}
	if s.config.SMTPURL != "" {
		return append(env, "SMTP_URL="+s.config.SMTPURL)
	}
	return append(env, "SMTP_URL=smtp://"+s.config.addr(s.config.SMTP), "SMTP_CA_FILE="+s.inboxCA())
}

// APIURL is where booking answers.
func (s *Stack) APIURL() string { return s.FrontURL("booking") }

// FrontURL is where the copy of booking or of the notifier with that name answers.
func (s *Stack) FrontURL(name string) string { return s.url(s.front, name) }

// InboxURL is the inbox's page; empty when mails go to a given server.
func (s *Stack) InboxURL() string {
	if s.config.SMTPURL != "" {
		return ""
	}
	return "http://" + s.config.addr(s.config.Inbox)
}

// NATSURL is where NATS answers.
func (s *Stack) NATSURL() string {
	if s.config.NATSURL != "" {
		return s.config.NATSURL
	}
	return "nats://" + s.config.addr(s.config.NATS)
}

// AdminURL is the admin port of a service, or of a copy with that name.
func (s *Stack) AdminURL(name string) string { return s.url(s.admin, name) }

func (s *Stack) url(addrs map[string]string, name string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return "http://" + addrs[name]
}

// DatabaseURL is how the role reaches the database; an empty role is the administrator.
func (s *Stack) DatabaseURL(role string) string {
	if role == "" {
		return s.db.admin.String()
	}
	return s.db.url(role)
}

// SeedFile holds the nkey seed of a NATS user.
func (s *Stack) SeedFile(user string) string { return s.keys.SeedFile(user) }

// writeEnv leaves the addresses for shells and for the nats CLI in the data folder.
func (s *Stack) writeEnv() error {
	var text strings.Builder
	pairs := [][2]string{
		{"API_URL", s.APIURL()},
		{"API_KEY", s.APIKey()},
		{"WEBHOOKS_URL", s.FrontURL("notifier") + "/v1/webhooks"},
		{"INBOX_URL", s.InboxURL()},
		{"NATS_URL", s.NATSURL()},
		{"NATS_NKEY_FILE", s.keys.SeedFile("dev")},
		{"DATABASE_URL", s.DatabaseURL("")},
	}
	if s.config.takesBounces() {
		pairs = append(pairs, [2]string{"BOUNCES_URL", s.FrontURL("notifier") + "/v1/bounces"})
	}
	for _, service := range Services {
		pairs = append(pairs, [2]string{strings.ToUpper(service) + "_ADMIN_URL", s.AdminURL(service)})
	}
	for _, p := range pairs {
		fmt.Fprintf(&text, "%s='%s'\n", p[0], strings.ReplaceAll(p[1], "'", `'\''`))
	}
	if err := os.WriteFile(filepath.Join(s.config.Dir, "env"), []byte(text.String()), 0o600); err != nil {
		return fmt.Errorf("write env: %w", err)
	}
	return s.writeContext()
}

// writeContext makes the folder a home of the nats CLI, for XDG_CONFIG_HOME=<folder>.
func (s *Stack) writeContext() error {
	context := map[string]string{
		"description": "Slotwise on this machine, as its operator", "url": s.NATSURL(),
		"nkey": s.keys.SeedFile("dev"), "inbox_prefix": "_INBOX_dev",
	}
	body, err := json.MarshalIndent(context, "", "  ")
	if err != nil {
		return fmt.Errorf("write context: %w", err)
	}
	dir := filepath.Join(s.config.Dir, "nats-cli", "nats")
	if err := os.MkdirAll(filepath.Join(dir, "context"), 0o700); err != nil {
		return fmt.Errorf("write context: %w", err)
	}
	for file, content := range map[string][]byte{"context/dev.json": body, "context.txt": []byte("dev")} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			return fmt.Errorf("write context: %w", err)
		}
	}
	return nil
}
