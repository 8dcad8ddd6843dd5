// Package ca is a certificate authority for tests and `make run`: it signs certificates for
// servers on this machine, and lives as long as its process or its folder.
package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime of the authority and of what it signs. Clocks of clients may be an hour behind.
const lifetime = 365 * 24 * time.Hour

// CA is a certificate authority of its own.
type CA struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// New makes an authority that nobody trusts yet: see [CA.PEM] and [CA.Pool].
func New() (*CA, error) {
	template := certificate("slotwise test authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, key, err := sign(template, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	return &CA{certificate: parsed, key: key}, nil
}

// Ensure reads the authority of a folder, and makes a new one when there is none, or when it
// ends within a month. The folder has two files, ca.pem and ca.key; the key is for its owner only.
func Ensure(dir string) (*CA, error) {
	certificate, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca.key")
	if c, err := load(certificate, key); err == nil && time.Until(c.certificate.NotAfter) > 30*24*time.Hour {
		return c, nil
	}
	c, err := New()
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(c.key)
	if err != nil {
		return nil, fmt.Errorf("encode the authority's key: %w", err)
	}
	err = errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600),
		os.WriteFile(certificate, c.PEM(), 0o600))
	if err != nil {
		return nil, fmt.Errorf("keep the authority: %w", err)
	}
	return c, nil
}

func load(certificate, key string) (*CA, error) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	private, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("read the authority: its key is of another kind")
	}
	return &CA{certificate: pair.Leaf, key: private}, nil
}

// Issue signs a server's certificate for names and IP addresses.
func (c *CA) Issue(hosts ...string) (tls.Certificate, error) {
	template := certificate(hosts[0])
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, key, err := sign(template, c)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("sign a certificate for %v: %w", hosts, err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// PEM is the authority's certificate, for clients that take a file.
func (c *CA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.certificate.Raw})
}

// Pool trusts this authority and no other.
func (c *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.certificate)
	return pool
}

func certificate(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime),
	}
}

// sign makes a key and signs the template for it; with its own key when there is no parent.
func sign(template *x509.Certificate, parent *CA) (der []byte, key *ecdsa.PrivateKey, err error) {
	key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent = &CA{certificate: template, key: key}
	}
	der, err = x509.CreateCertificate(rand.Reader, template, parent.certificate, &key.PublicKey, parent.key)
	return der, key, err
}
