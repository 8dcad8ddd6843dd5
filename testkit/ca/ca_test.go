package ca_test

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/slotwise/slotwise/testkit/ca"
)

func TestClientsTrustOnlyTheirAuthority(t *testing.T) {
	authority, other := newCA(t), newCA(t)
	cert, err := authority.Issue("localhost", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		client *tls.Config
		ok     bool
	}{
		"by name":           {&tls.Config{RootCAs: authority.Pool(), ServerName: "localhost"}, true},
		"by address":        {&tls.Config{RootCAs: authority.Pool(), ServerName: "127.0.0.1"}, true},
		"another host":      {&tls.Config{RootCAs: authority.Pool(), ServerName: "mail.example"}, false},
		"another authority": {&tls.Config{RootCAs: other.Pool(), ServerName: "localhost"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a loopback socket
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				server, err := l.Accept()
				if err == nil {
					_, _ = io.Copy(io.Discard, tls.Server(server, &tls.Config{Certificates: []tls.Certificate{cert}})) // until the client ends
					_ = server.Close()
				}
			}()
			client, err := net.Dial("tcp", l.Addr().String()) //nolint:noctx // a loopback socket
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if err := tls.Client(client, tt.client).HandshakeContext(t.Context()); (err == nil) != tt.ok {
				t.Errorf("handshake: %v", err)
			}
		})
	}
}

func TestEnsureKeepsTheAuthority(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	var seen []string
	for range 2 {
		c, err := ca.Ensure(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Issue("localhost"); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, string(c.PEM()))
	}
	if seen[0] != seen[1] {
		t.Error("the second one is another authority")
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.key"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := ca.Ensure(dir)
	if err != nil {
		t.Fatal(err)
	}
	if string(c.PEM()) == seen[0] {
		t.Error("an authority without its key is still used")
	}
}

func newCA(t *testing.T) *ca.CA {
	t.Helper()
	authority, err := ca.New()
	if err != nil {
		t.Fatal(err)
	}
	return authority
}
