package ca_test

import (
	"crypto/tls"
	"io"
	"net"
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
			if err := tls.Client(client, tt.client).Handshake(); (err == nil) != tt.ok {
				t.Errorf("handshake: %v", err)
			}
		})
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
