package meta

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleavestore/cleave/replica/topology"
	cleave "github.com/cleavestore/cleave/replica/transport"
)

// free returns addresses at which nothing listens.
func free(t *testing.T, n int) (out []string) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out
}

// TestTLS: an etcd of three members with TLS is reached by all of its endpoints, and goes on when one is
// down. What is amiss with an endpoint is said of it: that it is down, that its certificate is of another
// authority, and that it refuses that of this side.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	at := free(t, 6)
	authority := func() *cleave.Authority {
		t.Helper()
		return must[*cleave.Authority](t)(cleave.NewAuthority(t.TempDir(), time.Now()))
	}
	credentials := func(a *cleave.Authority) *cleave.Credentials {
		t.Helper()
		to := t.TempDir()
		if err := a.IssueClient(to, time.Now()); err != nil {
			t.Fatal(err)
		}
		return must[*cleave.Credentials](t)(cleave.LoadCredentials(to))
	}
	one := authority()
	if err := one.IssueNode(dir, 1, time.Now()); err != nil {
		t.Fatal(err)
	}
	ours, others := credentials(one), credentials(authority())
	e := Embedded{ServerName: cleave.AnyNode, CA: filepath.Join(dir, cleave.AuthorityFile), Cert: filepath.Join(dir, cleave.CertificateFile), Key: filepath.Join(dir, cleave.KeyFile)}
	var endpoints []string
	for i := range 3 {
		e.Members = append(e.Members, Member{fmt.Sprint("m", i), "https://" + at[i]})
		endpoints = append(endpoints, "https://"+at[3+i])
	}
	servers := make([]*Server, 3)
	var starts sync.WaitGroup
	for i := range 3 {
		starts.Go(func() {
			m := e
			m.Name, m.Client, m.Dir = e.Members[i].Name, endpoints[i], filepath.Join(dir, e.Members[i].Name)
			s, err := Start(context.Background(), m)
			if err != nil {
				t.Error(err)
				return
			}
			servers[i] = s
		})
	}
	starts.Wait()
	if t.Failed() {
		return
	}
	defer func() {
		for _, s := range servers {
			if s != nil {
				_ = s.Close()
			}
		}
	}()
	if err := Diagnose(t.Context(), endpoints, ours.Metadata()); err != nil {
		t.Fatal(err)
	}
	c, err := Connect(endpoints, ours.Metadata())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := must[*Store](t)(New(c, "tls"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err = s.Drain(ctx, 7, true); err != nil {
		t.Fatal(err)
	}
	if err = servers[1].Close(); err != nil {
		t.Fatal(err)
	}
	servers[1] = nil
	if p, err := s.Picture(ctx); err != nil || !p.Draining[topology.NodeID(7)] {
		t.Fatalf("with a member that is down: %+v, %v", p, err)
	}
	lines := func(err error) (n int) {
		if err == nil {
			return 0
		}
		return strings.Count(err.Error(), "\n") + 1
	}
	err = Diagnose(t.Context(), endpoints, ours.Metadata())
	if !errors.Is(err, ErrAway) || lines(err) != 1 || !strings.Contains(err.Error(), endpoints[1]) {
		t.Errorf("a member that is down: %v", err)
	}
	up := []string{endpoints[0], endpoints[2]}
	if err = Diagnose(t.Context(), up, others.Metadata()); !errors.Is(err, ErrServerCertificate) || errors.Is(err, ErrClientCertificate) || lines(err) != 2 {
		t.Errorf("another authority: %v", err)
	}
	bare := ours.Metadata().Clone()
	bare.Certificates, bare.GetClientCertificate = nil, nil
	if err = Diagnose(t.Context(), up, bare); !errors.Is(err, ErrClientCertificate) || lines(err) != 2 {
		t.Errorf("without a certificate: %v", err)
	}
	wrong := ours.Metadata().Clone()
	wrong.Certificates = others.Metadata().Certificates
	if err = Diagnose(t.Context(), up, wrong); !errors.Is(err, ErrClientCertificate) {
		t.Errorf("with a certificate of another authority: %v", err)
	}
	pem := must[[]byte](t)(os.ReadFile(filepath.Join(dir, cleave.AuthorityFile)))
	named := &tls.Config{RootCAs: x509.NewCertPool(), Certificates: ours.Metadata().Certificates}
	named.RootCAs.AppendCertsFromPEM(pem)
	if err = Diagnose(t.Context(), up, named); !errors.Is(err, ErrServerCertificate) {
		t.Errorf("a certificate for another name: %v", err)
	}
	if err = Diagnose(t.Context(), []string{strings.Replace(endpoints[0], "https", "http", 1)}, nil); !errors.Is(err, ErrAway) {
		t.Errorf("without TLS: %v", err)
	}
	plain := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	defer plain.Close()
	go func() {
		if conn, err := plain.Accept(); err == nil {
			_, _ = conn.Write([]byte("HTTP/1.0 400 Bad Request\r\n\r\n"))
			conn.Close()
		}
	}()
	if err = Diagnose(t.Context(), []string{"https://" + plain.Addr().String()}, new(tls.Config)); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), "http://") {
		t.Errorf("one that has no TLS: %v", err)
	}
}
