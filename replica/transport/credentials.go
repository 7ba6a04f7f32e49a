package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cleavestore/cleave/internal/vfs"
)

// Names of files with certificates and keys, in PEM.
const (
	AuthorityFile    = "ca.pem"
	AuthorityKeyFile = "ca-key.pem"
	CertificateFile  = "cert.pem"
	KeyFile          = "key.pem"
)

// ErrCertificate says that a certificate is missing, or not what it must be.
var ErrCertificate = errors.New("certificate is not accepted")

const (
	nodePrefix = "node-"
	nameSuffix = ".cleave"
	clientName = "client" + nameSuffix
	// AnyNode is a name that the certificates of all nodes have: the metadata store of a cluster
	// runs within some of them.
	AnyNode = "nodes" + nameSuffix
)

// nodeName is the name in a node's certificate.
func nodeName(node uint64) string { return nodePrefix + strconv.FormatUint(node, 10) + nameSuffix }

// nodeOf returns the node that a certificate names, 0 if it names none.
func nodeOf(c *x509.Certificate) uint64 {
	for _, name := range c.DNSNames {
		if middle, found := strings.CutPrefix(strings.TrimSuffix(name, nameSuffix), nodePrefix); found {
			if id, err := strconv.ParseUint(middle, 10, 64); err == nil && nodeName(id) == name {
				return id
			}
		}
	}
	return 0
}

// Authority signs the certificates of a cluster. A process that has its key can join the cluster, so
// it belongs on no node.
type Authority struct {
	cert *x509.Certificate
	pem  []byte
	key  *ecdsa.PrivateKey
}

// lifetime is how long certificates are valid.
const lifetime = 10 * 365 * 24 * time.Hour

// NewAuthority makes an authority and its two files, AuthorityFile and AuthorityKeyFile, in a
// directory, which must not have them.
func NewAuthority(dir string, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template(now)
	t.Subject.CommonName = "authority of a Cleave cluster"
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	a := &Authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	if err := writeKey(filepath.Join(dir, AuthorityKeyFile), key); err != nil {
		return nil, err
	}
	return a, writeNew(filepath.Join(dir, AuthorityFile), a.pem, 0o644)
}

// LoadAuthority reads what NewAuthority has made.
func LoadAuthority(dir string) (*Authority, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, AuthorityFile), filepath.Join(dir, AuthorityKeyFile))
	if err != nil {
		return nil, fmt.Errorf("authority in %s: %w: %w", dir, ErrCertificate, err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("authority in %s: %w: it is no authority with an ECDSA key", dir, ErrCertificate)
	}
	return &Authority{cert: pair.Leaf, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})}, nil
}

func template(now time.Time) *x509.Certificate {
	serial := make([]byte, 16)
	rand.Read(serial) // never fails
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial), Subject: pkix.Name{Organization: []string{"Cleave"}},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime),
	}
}

// IssueNode makes the files of a node in a directory: AuthorityFile, CertificateFile, KeyFile.
func (a *Authority) IssueNode(dir string, node uint64, now time.Time) error {
	return a.issue(dir, []string{nodeName(node), AnyNode}, now, x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth)
}

// IssueClient makes the files of a client in a directory: those of IssueNode.
func (a *Authority) IssueClient(dir string, now time.Time) error {
	return a.issue(dir, []string{clientName}, now, x509.ExtKeyUsageClientAuth)
}

func (a *Authority) issue(dir string, names []string, now time.Time, use ...x509.ExtKeyUsage) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	t := template(now)
	t.Subject.CommonName, t.DNSNames = names[0], names
	t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature, use
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return err
	}
	if err := writeKey(filepath.Join(dir, KeyFile), key); err != nil {
		return err
	}
	if err := writeNew(filepath.Join(dir, CertificateFile), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return err
	}
	return writeNew(filepath.Join(dir, AuthorityFile), a.pem, 0o644)
}

// Renew gives the authority and one directory of IssueNode or IssueClient new times: each gets a new
// certificate of the same key and names. So old and new ones are accepted beside each other while both are
// valid, and a crash leaves a whole pair. Only AuthorityFile and CertificateFile change. A node that runs reads
// them when it is started again. Error: ErrCertificate if the directory has no certificate of the authority.
func (a *Authority) Renew(dir string, now time.Time) error {
	name := filepath.Join(dir, CertificateFile)
	content, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return fmt.Errorf("%s: %w: the file has no certificate", name, ErrCertificate)
	}
	old, err := x509.ParseCertificate(block.Bytes)
	if err == nil {
		err = old.CheckSignatureFrom(a.cert)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %w", name, ErrCertificate, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, again(old, now), a.cert, old.PublicKey, a.key)
	if err != nil {
		return err
	}
	if err = replace(filepath.Join(dir, AuthorityFile), a.pem); err != nil {
		return err
	}
	return replace(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// RenewAuthority gives the certificate of the authority in a directory new times, and returns the authority.
func RenewAuthority(dir string, now time.Time) (*Authority, error) {
	a, err := LoadAuthority(dir)
	if err != nil {
		return nil, err
	}
	t := again(a.cert, now)
	der, err := x509.CreateCertificate(rand.Reader, t, t, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a, replace(filepath.Join(dir, AuthorityFile), a.pem)
}

// again returns the template of a certificate like another one, from now on.
func again(old *x509.Certificate, now time.Time) *x509.Certificate {
	t := template(now)
	t.Subject, t.DNSNames = old.Subject, old.DNSNames
	t.KeyUsage, t.ExtKeyUsage = old.KeyUsage, old.ExtKeyUsage
	t.IsCA, t.BasicConstraintsValid = old.IsCA, old.BasicConstraintsValid
	return t
}

// replace replaces a file as a whole.
func replace(name string, b []byte) error {
	fs, err := vfs.OpenRoot(filepath.Dir(name))
	if err != nil {
		return err
	}
	base := filepath.Base(name)
	err = vfs.WriteFileAtomic(fs, base+".tmp", base, b)
	if c, ok := fs.(io.Closer); ok {
		err = errors.Join(err, c.Close())
	}
	return err
}

func writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writeNew(name, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

// writeNew writes a file that is not there yet.
func writeNew(name string, b []byte, mode os.FileMode) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err = f.Write(b); err != nil {
		return err
	}
	return f.Sync()
}

// Credentials are the certificate and the key of a node or client, and its authority.
type Credentials struct {
	pool      *x509.CertPool
	pair      tls.Certificate
	dir       string
	authority [8]byte
}

// LoadCredentials reads the files of IssueNode or IssueClient. Error: ErrCertificate, with the
// name of the file.
func LoadCredentials(dir string) (*Credentials, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, CertificateFile), filepath.Join(dir, KeyFile))
	if err != nil {
		return nil, fmt.Errorf("credentials in %s: %w: %w", dir, ErrCertificate, err)
	}
	name := filepath.Join(dir, AuthorityFile)
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("credentials in %s: %w: %w", dir, ErrCertificate, err)
	}
	c := &Credentials{pool: x509.NewCertPool(), pair: pair, dir: dir}
	if !c.pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("%s: %w: the file has no certificate", name, ErrCertificate)
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("%s: %w: it does not begin with a certificate", name, ErrCertificate)
	}
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, ErrCertificate, err)
	}
	sum := sha256.Sum256(authority.RawSubjectPublicKeyInfo)
	copy(c.authority[:], sum[:])
	return c, nil
}

// Authority returns what tells a cluster from others: a digest of the public key of its authority, which stays when
// certificates are renewed.
func (c *Credentials) Authority() [8]byte { return c.authority }

// CheckNode returns nil if the certificate is that of a node and of its authority.
func (c *Credentials) CheckNode(node uint64, now time.Time) error {
	_, err := c.pair.Leaf.Verify(x509.VerifyOptions{Roots: c.pool, CurrentTime: now, DNSName: nodeName(node), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if err != nil {
		return fmt.Errorf("%s: %w for node %d: %w", filepath.Join(c.dir, CertificateFile), ErrCertificate, node, err)
	}
	return nil
}

// Metadata returns the configuration of a client of the metadata store within nodes. What the
// server shows must be the certificate of a node of the same authority, whatever name the library
// that dials has in mind: it would ask for that of the host.
func (c *Credentials) Metadata() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.pair}, ServerName: AnyNode,
		InsecureSkipVerify: true, // VerifyConnection does it
		VerifyConnection: func(s tls.ConnectionState) error {
			between := x509.NewCertPool()
			for _, o := range s.PeerCertificates[1:] {
				between.AddCert(o)
			}
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: c.pool, Intermediates: between, DNSName: AnyNode, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
			return err
		},
	}
}

// server returns the configuration of one who is dialed.
func (c *Credentials) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: c.pool,
		DynamicRecordSizingDisabled: true, SessionTicketsDisabled: true,
	}
}

// dialer returns the configuration of one who dials a node.
func (c *Credentials) dialer(node uint64) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.pair}, RootCAs: c.pool, ServerName: nodeName(node),
		DynamicRecordSizingDisabled: true,
	}
}

// explain says what is wrong with a connection that could not be made to a node.
func explain(err error, node uint64) error {
	var unknown x509.UnknownAuthorityError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: it is of another cluster's authority: %w", ErrCertificate, err)
	case errors.As(err, &verify) && len(verify.UnverifiedCertificates) > 0:
		if other := nodeOf(verify.UnverifiedCertificates[0]); other != 0 && other != node {
			return fmt.Errorf("%w: node %d is at this address: %w", ErrCertificate, other, err)
		}
		return fmt.Errorf("%w: %w", ErrCertificate, err)
	case errors.As(err, &record):
		return fmt.Errorf("no node is at this address: %w", err)
	case strings.Contains(err.Error(), "remote error: tls:"):
		return fmt.Errorf("%w: the other side refuses ours: %w", ErrCertificate, err)
	}
	return err
}
