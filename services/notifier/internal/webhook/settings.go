package webhook

import (
	"crypto/x509"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/slotwise/slotwise/pkg/config"
)

// Settings say where deliveries may go and how many run at once.
type Settings struct {
	Rules       Rules
	Proxy       *url.URL       // nil: none. What runs through one is dialled there, out of our sight
	CAs         *x509.CertPool // nil: the system's
	Connections int            // most deliveries at once
	Drain       time.Duration  // that deliveries get after SIGTERM
}

// Read reads the WEBHOOK_ settings; drain is what the service's DRAIN says.
func Read(env *config.Reader, drain time.Duration) Settings {
	return Settings{
		Rules:       readRules(env),
		Proxy:       readProxy(env),
		CAs:         readCAs(env),
		Connections: env.Int("WEBHOOK_CONNECTIONS", 64, 2, 1000, "most webhooks in flight at once; endpoints that fail share half of them"),
		Drain:       drain,
	}
}

// readRules reads WEBHOOK_ALLOW and WEBHOOK_ALLOW_HTTP.
func readRules(env *config.Reader) Rules {
	const name = "WEBHOOK_ALLOW"
	text := env.String(name, "", "networks that webhooks may go to though they are not public, as 10.1.0.0/16,…")
	rules := Rules{HTTP: env.Choice("WEBHOOK_ALLOW_HTTP", "whether webhooks may go to http:// URLs", "no", "yes") == "yes"}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(part)
		if err != nil || prefix != prefix.Masked() || prefix.Addr().Is4In6() {
			env.Mistake(name, "must be networks such as 10.1.0.0/16 or fd00:1::/32, separated by commas")
			continue
		}
		rules.Allow = append(rules.Allow, prefix)
	}
	return rules
}

func readProxy(env *config.Reader) *url.URL {
	const name = "WEBHOOK_PROXY"
	text := env.Secret(name, "proxy for webhooks, as http://host:port, https://… or socks5://…; it must refuse private addresses itself. Without it none is used, whatever HTTPS_PROXY says")
	if text == "" {
		return nil
	}
	proxy, err := url.Parse(text)
	if err != nil || proxy.Host == "" || proxy.Port() == "" || proxy.Scheme != "http" && proxy.Scheme != "https" && proxy.Scheme != "socks5" {
		env.Mistake(name, "must be a URL such as http://proxy.example:3128")
		return nil
	}
	return proxy
}

// readCAs adds authorities to the system's: endpoints are public ones and private ones.
func readCAs(env *config.Reader) *x509.CertPool {
	const name = "WEBHOOK_CA_FILE"
	file := env.String(name, "", "PEM file with authorities that may sign endpoints' certificates, beside the system's")
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		env.Mistake(name, "can't be read")
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		env.Mistake(name, "holds no certificate in PEM form")
	}
	return pool
}
