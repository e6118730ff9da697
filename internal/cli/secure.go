package cli

import (
	"crypto/tls"
	"crypto/x509"
)

// tlsConfig is whom a command trusts: the system's authorities, those of a file
// instead, or anybody.
func tlsConfig(ended <-chan struct{}, caFile string, insecure bool) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure}
	if caFile == "" {
		return config, nil
	}
	const hint = "--ca-cert wants certificates in PEM form"
	pem, err := readWhole(ended, caFile, maxCertificate)
	if err != nil {
		return config, misuse(hint, "reading the certificates: %w", err)
	}
	if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(pem) {
		return config, misuse(hint, "%s has no certificate in it", caFile)
	}
	return config, nil
}
