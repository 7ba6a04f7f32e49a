package meta

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Errors of Diagnose, for errors.Is.
var (
	// ErrAway says that nothing listens at an endpoint, or that it does not answer.
	ErrAway = errors.New("endpoint does not answer")
	// ErrServerCertificate says that the certificate of an endpoint is refused.
	ErrServerCertificate = errors.New("certificate of the endpoint is refused")
	// ErrClientCertificate says that an endpoint refuses the certificate of this side, or wants one.
	ErrClientCertificate = errors.New("endpoint refuses the certificate of this side, or its absence")
)

// diagnoseTime bounds how long one endpoint is tried.
const diagnoseTime = 2 * time.Second

// Diagnose tries each endpoint of a store that does not answer: the client of etcd does not say why it
// waits. The error has a line for each endpoint that cannot be used; it is nil if all can. config is that
// of Connect.
func Diagnose(ctx context.Context, endpoints []string, config *tls.Config) error {
	errs := make([]error, len(endpoints))
	var tasks sync.WaitGroup
	for i, e := range endpoints {
		tasks.Go(func() {
			each, cancel := context.WithTimeout(ctx, diagnoseTime)
			defer cancel()
			if err := tryEndpoint(each, e, config); err != nil {
				errs[i] = fmt.Errorf("%s: %w", e, err)
			}
		})
	}
	tasks.Wait()
	return errors.Join(errs...)
}

// preface is what a client of HTTP/2 says first: a line, and settings without any.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// tryEndpoint connects, and waits for the first bytes of the answer: with TLS 1.3 a server refuses the
// certificate of a client after the client takes the handshake for complete.
func tryEndpoint(ctx context.Context, endpoint string, config *tls.Config) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		if err = conn.SetDeadline(end); err != nil {
			return err
		}
	}
	if u.Scheme == "https" {
		c := new(tls.Config)
		if config != nil {
			c = config.Clone()
		}
		if c.ServerName == "" {
			c.ServerName = u.Hostname()
		}
		c.NextProtos = []string{"h2"}
		secure := tls.Client(conn, c)
		if err = secure.HandshakeContext(ctx); err != nil {
			return why(err)
		}
		conn = secure
	}
	if _, err = io.WriteString(conn, preface); err == nil {
		_, err = io.ReadFull(conn, make([]byte, 9))
	}
	return why(err)
}

// why sorts an error of a connection.
func why(err error) error {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &authority), errors.As(err, &host), errors.As(err, &invalid):
		return fmt.Errorf("%w: %w", ErrServerCertificate, err)
	case errors.As(err, &record):
		return fmt.Errorf("it does not speak TLS: is its URL http://? %w: %w", ErrAway, err)
	case strings.Contains(err.Error(), "remote error: tls"): // an alert, whose type is not exported
		return fmt.Errorf("%w: %w", ErrClientCertificate, err)
	}
	return fmt.Errorf("%w: %w", ErrAway, err)
}
