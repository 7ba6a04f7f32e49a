package replicated

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/host"
	"github.com/cleavestore/cleave/replica/protocol"
	"github.com/cleavestore/cleave/replica/topology"
	"github.com/cleavestore/cleave/replica/transport"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// heard is a node that has heard of the container "orders".
type heard struct {
	transport.Handler
	groups []*topology.Group // of the container; nil: it has none of them
	behind bool              // it has not heard what the container is
}

func (n heard) Client(_ context.Context, c *transport.Conn) {
	for {
		kind, payload, err := c.Read()
		if err != nil {
			return
		}
		q, err := protocol.DecodeRequest(kind, payload)
		status, bad := json.Marshal(host.Status{Node: 1, Containers: []cluster.Container{{Name: "orders", PartitionKey: []string{"/k"}, Number: cluster.FirstNumber}}})
		if n.behind {
			status, bad = json.Marshal(host.Status{Node: 1})
		}
		h := protocol.Head{Number: q.Number}
		c.Send(protocol.Answer, func(dst []byte) []byte {
			switch {
			case err != nil || bad != nil:
				return h.AppendError(dst, errors.Join(err, bad))
			case kind == protocol.Routes:
				return h.AppendRoutes(dst, nil, n.groups, nil)
			case kind == protocol.Status:
				return h.AppendText(dst, status)
			}
			return h.AppendError(dst, engine.ErrInvalid)
		})
	}
}

// open returns a store of a cluster with one node.
func open(t *testing.T, node heard) *Store {
	t.Helper()
	dir := t.TempDir()
	a, err := transport.NewAuthority(dir, time.Now())
	must(t, err)
	its, own := filepath.Join(dir, "node"), filepath.Join(dir, "client")
	must(t, os.Mkdir(its, 0o700))
	must(t, os.Mkdir(own, 0o700))
	must(t, a.IssueNode(its, 1, time.Now()))
	must(t, a.IssueClient(own, time.Now()))
	creds, err := transport.LoadCredentials(its)
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	n := transport.New(transport.Config{Node: 1, Credentials: creds, Listener: l, Handler: node})
	t.Cleanup(func() { n.Close() })
	creds, err = transport.LoadCredentials(own)
	must(t, err)
	c := client.New(client.Config{Cluster: &cluster.Cluster{Nodes: []cluster.Node{{ID: 1, Address: l.Addr().String()}}}, Credentials: creds})
	t.Cleanup(c.Close)
	s, err := Open(t.Context(), Config{Client: c, Wait: 300 * time.Millisecond})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// TestContainerAway: a container whose nodes do not answer is not taken for one that is not there, whose record a gateway that
// starts deletes.
func TestContainerAway(t *testing.T) {
	s := open(t, heard{})
	var fault *gateway.Fault
	if _, err := s.Container(t.Context(), "orders", engine.ContainerDef{}); !errors.As(err, &fault) || fault.Status != http.StatusServiceUnavailable {
		t.Errorf("one that the node has heard of: %v", err)
	}
	if _, err := s.Container(t.Context(), "nothing", engine.ContainerDef{}); !errors.Is(err, engine.ErrNoContainer) {
		t.Errorf("one that it has not heard of: %v", err)
	}
}

// TestForeignContainer: a container that has another partition key is not the one that a gateway has made.
func TestForeignContainer(t *testing.T) {
	whole := partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}
	for _, tc := range []struct {
		key  []string
		want error
	}{{[]string{"/k"}, nil}, {nil, nil}, {[]string{"/other"}, engine.ErrNoContainer}, {[]string{"/k", "/l"}, engine.ErrNoContainer}} {
		s := open(t, heard{groups: []*topology.Group{topology.New(cluster.FirstNumber<<32|1, "orders", whole, 1)}})
		if _, err := s.Container(t.Context(), "orders", engine.ContainerDef{PartitionKey: tc.key}); !errors.Is(err, tc.want) {
			t.Errorf("%q: %v, want %v", tc.key, err, tc.want)
		}
	}
	var fault *gateway.Fault
	s := open(t, heard{groups: []*topology.Group{topology.New(cluster.FirstNumber<<32|1, "orders", whole, 1)}, behind: true})
	if _, err := s.Container(t.Context(), "orders", engine.ContainerDef{PartitionKey: []string{"/k"}}); !errors.As(err, &fault) || fault.Status != http.StatusServiceUnavailable {
		t.Errorf("of which no node says what it is: %v", err)
	}
}
