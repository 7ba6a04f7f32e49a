package main

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
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	certName = "certificate.pem"
	keyName  = "key.pem"
	// validity is how long a certificate is good.
	validity = 10 * 365 * 24 * time.Hour
)

// keptCertificate returns the certificate in a directory, and the file that holds it. It
// makes one if there is none, or if the one that is there has expired.
func keptCertificate(dir string) (*tls.Certificate, string, error) {
	certFile, keyFile := filepath.Join(dir, certName), filepath.Join(dir, keyName)
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	switch {
	case err == nil && time.Now().Before(pair.Leaf.NotAfter):
		return &pair, certFile, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, "", fmt.Errorf("certificate in %s: %w; remove the directory to have another one made", dir, err)
	}
	if err = os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", err
	}
	certText, keyText, err := makeCertificate()
	if err != nil {
		return nil, "", err
	}
	// The key first: a certificate without a key would be refused above.
	if err = writeWhole(keyFile, keyText, 0o600); err != nil {
		return nil, "", err
	}
	if err = writeWhole(certFile, certText, 0o644); err != nil {
		return nil, "", err
	}
	pair, err = tls.X509KeyPair(certText, keyText)
	return &pair, certFile, err
}

// writeWhole writes a file that is there as a whole or not at all.
func writeWhole(name string, text []byte, mode fs.FileMode) error {
	next := name + ".new"
	if err := os.WriteFile(next, text, mode); err != nil {
		return err
	}
	return os.Rename(next, name)
}

// makeCertificate returns a new certificate and its key, in PEM. It is its own root, so a
// client that trusts it needs nothing else.
func makeCertificate() (certText, keyText []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	names := []string{"localhost", "host.docker.internal"}
	if host, failed := os.Hostname(); failed == nil && host != "" && host != "localhost" {
		names = append(names, host)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "localhost", Organization: []string{"Cleave"}},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity), DNSNames: names,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}
