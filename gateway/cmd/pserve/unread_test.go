package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/gateway/control"
)

// TestUnreadBody: what is answered unread is answered, and its connection closed, though the body of the
// request never ends: the pages without a signature, and what the control port refuses or reads.
func TestUnreadBody(t *testing.T) {
	const key = "a key"
	host, err := control.Open(t.Context(), "", &control.Options{Key: key, Hosts: []string{"here"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if failed := host.Close(); failed != nil {
			t.Error(failed)
		}
	})
	cert := filepath.Join(t.TempDir(), certName)
	if err = os.WriteFile(cert, []byte("certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	// These servers have no time-outs: without an answer and an end the test waits for ever.
	pages := httptest.NewServer((&server{host: host}).routes(host, cert))
	t.Cleanup(pages.Close)
	directs := httptest.NewServer(host.Control())
	t.Cleanup(directs.Close)
	var requests sync.WaitGroup
	const authorized = "\r\nAuthorization: Bearer " + key
	for _, of := range []struct {
		at     *httptest.Server
		line   string // of the request
		head   string // the value of Host, and headers behind it
		status int
	}{
		{pages, "GET /healthz", "x", 200},
		{pages, "GET /metrics", "x", 200},
		{pages, "GET /_explorer/emulator.pem", "x", 200},
		{pages, "POST /healthz", "x", 401},
		{pages, "HEAD /metrics", "x", 401},
		{directs, "GET /control/jobs", "here" + authorized, 200},
		{directs, "GET /", "here" + authorized, 200},
		{directs, "POST /control/faults", "here", 401},
		{directs, "POST /control/faults", "elsewhere" + authorized, 421},
	} {
		for name, body := range map[string]string{
			"no chunk":       "Transfer-Encoding: chunked\r\n\r\n",
			"no last chunk":  "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
			"body cut short": "Content-Length: 100\r\n\r\n{",
			"waits to go on": "Expect: 100-continue\r\nContent-Length: 100\r\n\r\n",
			"whole":          "Content-Length: 2\r\n\r\n{}",
		} {
			requests.Go(func() {
				if failed := unfinished(t.Context(), of.at.Listener.Addr().String(), of.line+" HTTP/1.1\r\nHost: "+of.head+"\r\n"+body, of.status); failed != nil {
					t.Errorf("%s, %s: %v", of.line, name, failed)
				}
			})
		}
	}
	requests.Wait()
}

// unfinished sends the beginning of a request, and waits for an answer with the status and for the end of
// the connection.
func unfinished(ctx context.Context, at, text string, status int) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", at)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err = io.WriteString(conn, text); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	r, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != status {
		return fmt.Errorf("%s, not %d", r.Status, status)
	}
	_, err = io.Copy(io.Discard, in)
	return err
}
