package pki

import (
	"bytes"
	"crypto/x509"
	"net"
	"os"
	"testing"
)

func open(t *testing.T, folder string) *Authority {
	t.Helper()
	a, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestTheAuthorityAndItsPapersAreFoundAgain(t *testing.T) {
	folder := t.TempDir()
	subject := Subject{File: "api", User: "api", Group: "masters", Names: []string{"localhost"}, Addresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	papers := func() (ca, leaf, token []byte) {
		a := open(t, folder)
		c, err := a.Issue(subject)
		if err != nil {
			t.Fatal(err)
		}
		path, err := a.SigningKey()
		if err != nil {
			t.Fatal(err)
		}
		token, err = os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return a.CertificatePEM(), c.Certificate[0], token
	}
	ca, leaf, token := papers()
	ca2, leaf2, token2 := papers()
	if !bytes.Equal(ca, ca2) || !bytes.Equal(leaf, leaf2) || !bytes.Equal(token, token2) {
		t.Error("the second start has made papers anew")
	}
}

func TestAPaperThatNoLongerFitsIsMadeAnew(t *testing.T) {
	before := Subject{File: "x", User: "u", Group: "g", Names: []string{"n"}, Addresses: []net.IP{net.IPv4(10, 0, 0, 1)}}
	for name, change := range map[string]func(*Subject){
		"user":    func(s *Subject) { s.User = "v" },
		"group":   func(s *Subject) { s.Group = "" },
		"names":   func(s *Subject) { s.Names = []string{"n", "m"} },
		"address": func(s *Subject) { s.Addresses = []net.IP{net.IPv4(10, 0, 0, 2)} },
	} {
		a := open(t, t.TempDir())
		first, err := a.Issue(before)
		if err != nil {
			t.Fatal(err)
		}
		after := before
		change(&after)
		second, err := a.Issue(after)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(first.Certificate[0], second.Certificate[0]) || !a.fits(second.Leaf, after) {
			t.Errorf("%s: the old certificate was given out", name)
		}
	}
}

func TestAPaperOfAnotherAuthorityIsMadeAnew(t *testing.T) {
	folder := t.TempDir()
	first, err := open(t, folder).NodeCertificate("gpu-0", net.IPv4(10, 244, 255, 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"ca.crt", "ca.key"} {
		if err := os.Remove(folder + "/" + file); err != nil {
			t.Fatal(err)
		}
	}
	a := open(t, folder)
	second, err := a.NodeCertificate("gpu-0", net.IPv4(10, 244, 255, 1))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(first.Certificate[0], second.Certificate[0]) {
		t.Fatal("the certificate of the authority that is gone was given out")
	}
	if _, err := second.Leaf.Verify(x509.VerifyOptions{Roots: a.Pool(), DNSName: "10.244.255.1"}); err != nil {
		t.Error(err)
	}
}

func TestKeysAreForTheirOwnerAlone(t *testing.T) {
	folder := t.TempDir()
	a := open(t, folder)
	if _, err := a.NodeCertificate("n", net.IPv4(10, 0, 0, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := a.SigningKey(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"ca", "node-n", "service-accounts"} {
		info, err := os.Stat(a.KeyFile(file))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v", file, info.Mode())
		}
	}
}

func TestADamagedAuthorityIsAnError(t *testing.T) {
	folder := t.TempDir()
	open(t, folder)
	if err := os.WriteFile(folder+"/ca.key", []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(folder); err == nil {
		t.Error("taken")
	}
}
