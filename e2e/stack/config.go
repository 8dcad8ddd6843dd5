package stack

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Config says what to run, and where.
type Config struct {
	Root string // the repository
	Bin  string // the folder with the built programs (see [Build])
	Dir  string // the data folder
	Host string // everything listens here; default 127.0.0.1
	Ports

	// Servers that run already: those are used, and none is started.
	DatabaseURL string // an administrator's
	Password    string // that all roles have on that server already; default: each gets one of its own
	NATSURL     string
	SMTPURL     string

	Env    map[string]string // settings for all services, such as REMINDER_LEAD
	Keep   bool              // start again what dies
	Out    io.Writer         // lines of all parts, and the stack's own
	Drain  time.Duration     // how long services may finish at a stop; default 5 s
	Sync   bool              // PostgreSQL and JetStream sync to disk, as in production
	Parts  []string          // services to start; default: all
	NoKey  bool              // make no API key: the programs are of a release that had none
	Pooler string            // host:port that services reach PostgreSQL by, instead of the server itself

	reserved []*os.File // see free
}

// Ports are where the parts listen. Zero means any free port, the same for the stack's life.
type Ports struct {
	HTTP, Inbox, SMTP, NATS, Postgres int
	Notifier                          int // its API of webhooks, and where it takes reports of bounces
	Admin                             int // of the first service; the others follow
}

// portSettings are the settings that move a port, for the message when it is busy.
func (c *Config) portSettings() []struct {
	setting string
	port    *int
	used    bool
} {
	return []struct {
		setting string
		port    *int
		used    bool
	}{
		{"HTTP_PORT", &c.HTTP, true},
		{"NOTIFIER_PORT", &c.Notifier, true},
		{"INBOX_PORT", &c.Inbox, c.SMTPURL == ""},
		{"SMTP_PORT", &c.SMTP, c.SMTPURL == ""},
		{"NATS_PORT", &c.NATS, c.NATSURL == ""},
		{"POSTGRES_PORT", &c.Postgres, c.DatabaseURL == ""},
	}
}

// takesBounces reports whether the notifier listens for them.
func (c *Config) takesBounces() bool {
	return c.Env["BOUNCE_SECRET"] != "" || os.Getenv("BOUNCE_SECRET") != ""
}

// Check reports a port that is busy. It changes nothing.
func (c Config) Check(ctx context.Context) error {
	defer c.unreserve()
	return c.settle(ctx)
}

// settle fills in the defaults and the free ports, and reports every busy one.
func (c *Config) settle(ctx context.Context) error {
	if c.Host == "" {
		c.Host = "127.0.0.1"
	}
	if c.Out == nil {
		c.Out = os.Stdout
	}
	if c.Drain == 0 {
		c.Drain = 5 * time.Second
	}
	if len(c.Parts) == 0 {
		c.Parts = Services
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return fmt.Errorf("find the data folder: %w", err)
	}
	c.Dir = dir
	for _, p := range c.portSettings() {
		if !p.used {
			continue
		}
		if *p.port, err = c.free(ctx, *p.port); err != nil {
			return fmt.Errorf("%s=%d: the port is busy; set %s to a free one, or end what uses it: %w", p.setting, *p.port, p.setting, err)
		}
	}
	for i := range Services {
		if c.Admin == 0 {
			break
		}
		if _, err := c.free(ctx, c.Admin+i); err != nil {
			return fmt.Errorf("ADMIN_PORT=%d: port %d is busy; set ADMIN_PORT to the first of %d free ones: %w", c.Admin, c.Admin+i, len(Services), err)
		}
	}
	return nil
}

func (c *Config) addr(port int) string { return net.JoinHostPort(c.Host, strconv.Itoa(port)) }
