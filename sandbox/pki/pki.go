// Package pki is who is who in a sandbox: one certificate authority, and a certificate
// for everyone who serves or asks. It is made once, and found again by the next start,
// so that a kubeconfig outlives the processes.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Authority is a certificate authority whose papers are files of a folder.
type Authority struct {
	folder string
	cert   *x509.Certificate
	key    crypto.Signer
}

// Subject is for whom a certificate is. One pair serves and dials.
type Subject struct {
	File      string // its name in the folder, without .crt and .key
	User      string // the common name, which is Kubernetes' user
	Group     string // the organisation, which is Kubernetes' group
	Names     []string
	Addresses []net.IP
}

// Open finds the authority of a folder, or makes one.
func Open(folder string) (*Authority, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	a := &Authority{folder: folder}
	pair, err := tls.LoadX509KeyPair(a.CertificateFile("ca"), a.KeyFile("ca"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return a, a.begin()
	case err != nil:
		return nil, fmt.Errorf("the authority in %s: %w", folder, err)
	}
	if time.Until(pair.Leaf.NotAfter) < 0 {
		return nil, fmt.Errorf("the authority in %s has expired; remove the folder of that sandbox", folder)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the authority in %s: its key cannot sign", folder)
	}
	a.cert, a.key = pair.Leaf, key
	return a, nil
}

func (a *Authority) begin() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "aicr-sandbox"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	a.key = key
	return a.write("ca", der, key)
}

// CertificateFile is where the certificate of a subject is. That of the authority is "ca".
func (a *Authority) CertificateFile(file string) string { return filepath.Join(a.folder, file+".crt") }

// KeyFile is where the key of a subject is.
func (a *Authority) KeyFile(file string) string { return filepath.Join(a.folder, file+".key") }

// CertificatePEM is the authority's own certificate, which everyone trusts.
func (a *Authority) CertificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Pool has the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Issue finds the certificate of a subject, or makes one when there is none, or when it
// is another authority's, says something else, or ends within a month.
func (a *Authority) Issue(s Subject) (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(a.CertificateFile(s.File), a.KeyFile(s.File))
	if err == nil && a.fits(pair.Leaf, s) {
		return pair, nil
	}
	if err := a.issue(s); err != nil {
		return tls.Certificate{}, fmt.Errorf("a certificate for %s: %w", s.File, err)
	}
	return tls.LoadX509KeyPair(a.CertificateFile(s.File), a.KeyFile(s.File))
}

func (a *Authority) fits(c *x509.Certificate, s Subject) bool {
	return c.CheckSignatureFrom(a.cert) == nil &&
		time.Until(c.NotAfter) > 30*24*time.Hour &&
		c.Subject.CommonName == s.User &&
		slices.Equal(c.Subject.Organization, groups(s)) &&
		slices.Equal(c.DNSNames, s.Names) &&
		slices.EqualFunc(c.IPAddresses, s.Addresses, net.IP.Equal)
}

func groups(s Subject) []string {
	if s.Group == "" {
		return nil
	}
	return []string{s.Group}
}

func (a *Authority) issue(s Subject) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: s.User, Organization: groups(s)},
		DNSNames: s.Names, IPAddresses: s.Addresses,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	return a.write(s.File, der, key)
}

// NodeCertificate is that of a node's kubelet, which serves at an address.
func (a *Authority) NodeCertificate(name string, address net.IP) (tls.Certificate, error) {
	return a.Issue(Subject{
		File: "node-" + name, User: "system:node:" + name, Group: "system:nodes",
		Names: []string{name}, Addresses: []net.IP{address},
	})
}

// SigningKey is the file of the key that signs the tokens of service accounts.
func (a *Authority) SigningKey() (string, error) {
	path := a.KeyFile("service-accounts")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", err
	}
	return path, writeKey(path, key)
}

func (a *Authority) write(file string, der []byte, key crypto.Signer) error {
	if err := writeKey(a.KeyFile(file), key); err != nil {
		return err
	}
	return writePEM(a.CertificateFile(file), "CERTIFICATE", der)
}

func writeKey(path string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", der)
}

// writePEM puts a whole file in place: one that was half written would be found by the
// next start.
func writePEM(path, kind string, der []byte) error {
	if err := os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Kubeconfig is the file with which a subject reaches an API server. It has all that it
// needs in itself, and may be copied.
func (a *Authority) Kubeconfig(server string, s Subject) ([]byte, error) {
	if _, err := a.Issue(s); err != nil {
		return nil, err
	}
	certificate, err := os.ReadFile(a.CertificateFile(s.File))
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(a.KeyFile(s.File))
	if err != nil {
		return nil, err
	}
	in := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: aicr-sandbox
contexts:
  - name: aicr-sandbox
    context: {cluster: aicr-sandbox, user: %s}
clusters:
  - name: aicr-sandbox
    cluster:
      server: %s
      certificate-authority-data: %s
users:
  - name: %[1]s
    user:
      client-certificate-data: %[4]s
      client-key-data: %[5]s
`, s.File, server, in(a.CertificatePEM()), in(certificate), in(key)), nil
}
