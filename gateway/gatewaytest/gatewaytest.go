// Package gatewaytest gives a test a server that speaks the protocol of Azure Cosmos DB, with a
// store in memory that is gone at its end.
//
//	func TestOrders(t *testing.T) {
//		s := gatewaytest.Start(t, nil)
//		service := orders.New(s.Endpoint, s.Key)
//		s.Plant(t, control.Fault{Status: 429, RetryAfter: 10, Operations: []string{"create"}, Count: 2})
//		…
//	}
//
// Each Start has a store and ports of its own, so tests may run in parallel. Nothing is written to
// the disk.
package gatewaytest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cleavestore/cleave/console"
	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway"
	"github.com/cleavestore/cleave/gateway/control"
)

// Server is a server of a test. It is safe for concurrent use.
type Server struct {
	// Endpoint is the address that clients are given, such as "http://127.0.0.1:43210/".
	Endpoint string
	// Key is the master key, in base64.
	Key string
	// Control directs the server: splits, faults, the clock, checkpoints.
	Control *control.Client
	// Host is the server itself.
	Host *control.Host
}

// memoryBudget is enough for a test.
const memoryBudget = 32 << 20

// Start starts a server. It ends, and its store is gone, at the end of the test. nil options are
// those of a server that does not enforce throughput.
func Start(t testing.TB, o *gateway.Options) *Server {
	t.Helper()
	s := &Server{Key: gateway.EmulatorKey}
	page := httptest.NewUnstartedServer(nil)
	settings := control.Options{
		Engine: engine.Options{MemoryBudget: memoryBudget}, Title: t.Name(),
		Hosts: console.LocalHosts(page.Listener.Addr().String()),
	}
	if o != nil {
		settings.Gateway = *o
	}
	if settings.Gateway.Key != "" {
		s.Key = settings.Gateway.Key
	}
	var err error
	if s.Host, err = control.Open(t.Context(), "", &settings); err != nil {
		t.Fatalf("gatewaytest: %v", err)
	}
	page.Config.Handler = s.Host.Control()
	page.Start()
	served := httptest.NewServer(s.Host)
	s.Endpoint = served.URL + "/"
	s.Control = &control.Client{URL: page.URL + "/", HTTP: page.Client()}
	t.Cleanup(func() {
		served.Close()
		page.Close()
		if err := s.Host.Close(); err != nil {
			t.Errorf("gatewaytest: %v", err)
		}
	})
	return s
}

// Plant plants a fault, and removes it at the end of the test.
func (s *Server) Plant(t testing.TB, f control.Fault) control.Fault {
	t.Helper()
	planted, err := s.Control.Plant(t.Context(), f)
	if err != nil {
		t.Fatalf("gatewaytest: %v", err)
	}
	t.Cleanup(func() { s.Host.RemoveFault(planted.ID) })
	return planted
}

// Do sends a signed request and returns the status and the body of the answer. The path is that
// of a resource, such as "dbs/shop/colls/orders/docs"; head are names and values of headers.
func (s *Server) Do(t testing.TB, method, path, body string, head ...string) (status int, answer string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.Endpoint+strings.TrimPrefix(path, "/"), strings.NewReader(body))
	if err == nil {
		err = Sign(r, s.Key)
	}
	if err != nil {
		t.Fatalf("gatewaytest: %v", err)
	}
	for i := 0; i+1 < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("gatewaytest: %v", err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatalf("gatewaytest: %v", err)
	}
	return got.StatusCode, string(text), got.Header
}
