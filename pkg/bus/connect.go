package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/slotwise/slotwise/pkg/admin"
	"github.com/slotwise/slotwise/pkg/config"
	"github.com/slotwise/slotwise/pkg/retry"
	"go.uber.org/zap"
)

// Settings say which servers to use, and as whom.
type Settings struct {
	User     string // names the connection and its inbox prefix, _INBOX_<user>
	Servers  []*url.URL
	SeedFile string // nkey seed; empty: credentials come from the URL
	CAFile   string // trust these certificates only; empty: the system's
}

// Read reads NATS_URL, NATS_NKEY_FILE and NATS_CA_FILE for user.
func Read(env *config.Reader, user string) Settings {
	return Settings{
		User:     user,
		Servers:  env.URLs("NATS_URL", "nats://127.0.0.1:4222", "NATS servers, separated by commas", "nats", "tls"),
		SeedFile: env.String("NATS_NKEY_FILE", "", "file with the nkey seed of the NATS user "+user),
		CAFile:   env.String("NATS_CA_FILE", "", "certificates that the NATS server's may be signed by"),
	}
}

// Dial connects once, with opts after the settings' own options, and returns an error when no
// server answers. Use [Connect] for a connection that waits for its server.
func Dial(s Settings, log *zap.Logger, opts ...nats.Option) (*nats.Conn, error) {
	own, err := s.options(log)
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(s.servers(), append(own, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return nc, nil
}

// Connect returns a connection at once, whether a server is there or not; it connects and
// reconnects for ever, 1 s to 30 s apart, and logs one line a try. Nothing is buffered while
// it is away: a publish then fails. It registers readiness with watch unless that is nil.
func Connect(s Settings, log *zap.Logger, watch *admin.Server, opts ...nats.Option) (*nats.Conn, error) {
	wait := retry.Backoff{Base: time.Second, Max: 30 * time.Second}
	nc, err := Dial(s, log, append([]nats.Option{
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(func(tries int) time.Duration {
			pause := wait.Delay(tries)
			log.Warn("nats is not reachable", zap.Int("tries", tries), zap.Duration("wait", pause))
			return pause
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("nats connected again") }),
	}, opts...)...)
	if err != nil {
		return nil, err
	}
	if watch != nil {
		watch.Ready("nats", func(context.Context) error {
			if !nc.IsConnected() {
				return errors.New("not connected")
			}
			return nil
		})
	}
	return nc, nil
}

func (s Settings) servers() string {
	all := make([]string, 0, len(s.Servers))
	for _, u := range s.Servers {
		all = append(all, u.String())
	}
	return strings.Join(all, ",")
}

// options are those of every connection. A write never blocks for longer than FlusherTimeout:
// without it a publish to a frozen server holds the connection's mutex for a minute.
func (s Settings) options(log *zap.Logger) ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name("slotwise-" + s.User),
		nats.CustomInboxPrefix("_INBOX_" + s.User),
		nats.Timeout(5 * time.Second),
		nats.FlusherTimeout(2 * time.Second),
		nats.ReconnectBufSize(-1),
		nats.PingInterval(20 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("nats disconnected", zap.Error(err))
			}
		}),
		// The only place where a denied permission shows: the call itself just times out.
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			fields := []zap.Field{zap.Error(err)}
			if sub != nil {
				fields = append(fields, zap.String("subject", sub.Subject))
			}
			log.Warn("nats reports an error", fields...)
		}),
	}
	if s.SeedFile != "" {
		nkey, err := nats.NkeyOptionFromSeed(s.SeedFile)
		if err != nil {
			return nil, errors.New("NATS_NKEY_FILE holds no nkey seed that can be read")
		}
		opts = append(opts, nkey)
	}
	if s.CAFile != "" {
		opts = append(opts, nats.RootCAs(s.CAFile), nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	return opts, nil
}
