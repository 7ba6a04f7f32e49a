package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cleavestore/cleave/gateway/control"
	"github.com/cleavestore/cleave/gateway/internal/httpserver"
	"github.com/cleavestore/cleave/metrics"
)

// server serves one or more addresses.
type server struct {
	host    *control.Host
	logger  *slog.Logger
	tls     *tls.Config
	servers []*http.Server
	failed  chan error // made by listen; a server that has ended by itself
}

// listen begins to serve an address and returns it with its port.
func (s *server) listen(ctx context.Context, address string, h http.Handler) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	s.serve(newFirstByte(l, s.tls), h)
	return l.Addr().String(), nil
}

// serve begins to serve a listener.
func (s *server) serve(l net.Listener, h http.Handler) {
	if s.failed == nil {
		s.failed = make(chan error, 3)
	}
	hs := httpserver.New(h, s.logger)
	s.servers = append(s.servers, hs)
	go func() {
		if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}()
}

// shutdown waits for the requests under way, until ctx ends.
func (s *server) shutdown(ctx context.Context) error {
	var all []error
	for _, hs := range s.servers {
		all = append(all, hs.Shutdown(ctx))
	}
	return errors.Join(all...)
}

func (s *server) close() {
	for _, hs := range s.servers {
		hs.Close()
	}
}

func (s *server) health(w http.ResponseWriter, r *http.Request) {
	db, release, err := s.host.Use(r.Context())
	if err != nil {
		return // the client has gone
	}
	defer release()
	w.Header().Set("Content-Type", "application/json")
	if failed := db.Stats().Failed; failed != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "{\"status\":\"failed\",\"error\":%s}\n", strconv.Quote(failed.Error()))
		return
	}
	io.WriteString(w, "{\"status\":\"ok\"}\n") //nolint:errcheck // the client has gone
}

// metrics writes what the store measures in the text format of Prometheus.
func (s *server) metrics(w http.ResponseWriter, r *http.Request) {
	db, release, err := s.host.Use(r.Context())
	if err != nil {
		return // the client has gone
	}
	defer release()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	b := bufio.NewWriter(w)
	defer b.Flush()
	snapshot := db.Metrics()
	bounds := metrics.Bounds()
	for i := range snapshot.Metrics {
		m := &snapshot.Metrics[i]
		fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", m.Name, strings.ReplaceAll(m.Help, "\n", " "), m.Name, m.Kind)
		for j := range m.Samples {
			sample := &m.Samples[j]
			labels := labelText(m.Labels, sample.Labels)
			if sample.Histogram == nil {
				fmt.Fprintf(b, "%s%s %v\n", m.Name, braces(labels), sample.Value)
				continue
			}
			if labels != "" {
				labels += ","
			}
			for at, count := range sample.Histogram.Cumulative(bounds) {
				fmt.Fprintf(b, "%s_bucket{%sle=\"%v\"} %d\n", m.Name, labels, bounds[at].Seconds(), count)
			}
			fmt.Fprintf(b, "%s_bucket{%sle=\"+Inf\"} %d\n", m.Name, labels, sample.Histogram.Count)
			fmt.Fprintf(b, "%s_sum%s %v\n", m.Name, braces(strings.TrimSuffix(labels, ",")), sample.Histogram.Sum.Seconds())
			fmt.Fprintf(b, "%s_count%s %d\n", m.Name, braces(strings.TrimSuffix(labels, ",")), sample.Histogram.Count)
		}
	}
}

func labelText(names, values []string) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(values[i]) + `"`)
	}
	return b.String()
}

func braces(labels string) string {
	if labels == "" {
		return ""
	}
	return "{" + labels + "}"
}

// firstByte is a listener whose connections speak TLS if their first byte is that of a TLS
// handshake, and plain HTTP otherwise. The first byte is awaited beside Accept, so that a
// client that sends nothing holds up nobody.
type firstByte struct {
	net.Listener
	tls   *tls.Config
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
	err   error // set before done is closed
}

// tlsHandshake is the first byte of a TLS connection.
const tlsHandshake = 0x16

// mostWaiting is how many connections may be silent at a time.
const mostWaiting = 1024

func newFirstByte(l net.Listener, config *tls.Config) *firstByte {
	f := &firstByte{Listener: l, tls: config, conns: make(chan net.Conn), done: make(chan struct{})}
	go f.accept()
	return f
}

func (f *firstByte) accept() {
	places := make(chan struct{}, mostWaiting)
	for pause := time.Millisecond; ; {
		conn, err := f.Listener.Accept()
		var temporary net.Error
		switch {
		case errors.As(err, &temporary) && temporary.Timeout():
			continue
		case errors.Is(err, net.ErrClosed):
			f.end(err)
			return
		case err != nil:
			// Out of descriptors, for instance: others will be freed.
			select {
			case <-f.done:
				return
			case <-time.After(pause):
				pause = min(2*pause, time.Second)
				continue
			}
		}
		pause = time.Millisecond
		select {
		case places <- struct{}{}:
		case <-f.done:
			conn.Close()
			return
		}
		go func() {
			defer func() { <-places }()
			f.sort(conn)
		}()
	}
}

// sort waits for the first byte of a connection and hands it to Accept.
func (f *firstByte) sort(conn net.Conn) {
	p := &peeked{Conn: conn}
	var first [1]byte
	if err := conn.SetReadDeadline(time.Now().Add(httpserver.HeadTimeout)); err != nil {
		conn.Close()
		return
	}
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		conn.Close()
		return
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		conn.Close()
		return
	}
	p.first, p.has = first[0], true
	var out net.Conn = p
	if first[0] == tlsHandshake {
		out = tls.Server(p, f.tls)
	}
	select {
	case f.conns <- out:
	case <-f.done:
		conn.Close()
	}
}

// Accept implements net.Listener.
func (f *firstByte) Accept() (net.Conn, error) {
	select {
	case conn := <-f.conns:
		return conn, nil
	case <-f.done:
		return nil, f.err
	}
}

// Close implements net.Listener.
func (f *firstByte) Close() error {
	err := f.Listener.Close()
	f.end(net.ErrClosed)
	return err
}

func (f *firstByte) end(err error) {
	f.once.Do(func() {
		f.err = err
		close(f.done)
	})
}

// peeked is a connection of which the first byte was read. One goroutine reads it at a
// time.
type peeked struct {
	net.Conn
	first byte
	has   bool
}

// Read implements net.Conn.
func (p *peeked) Read(b []byte) (int, error) {
	if p.has && len(b) > 0 {
		b[0], p.has = p.first, false
		return 1, nil
	}
	return p.Conn.Read(b)
}
