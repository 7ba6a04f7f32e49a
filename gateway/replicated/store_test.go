package replicated

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/group"
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

// heard is a node that has heard of some containers, and has groups of some.
type heard struct {
	transport.Handler
	groups     []*topology.Group
	containers []cluster.Container
	applied    uint64        // entry of its groups, in which there is an item "there"
	lost       *atomic.Int64 // how many answers to changes are lost; there is the container that is to be made
	record     *record       // of the catalogue's owner; nil: what is proposed was decided before
}

// record is the record of the gateway that owns the catalogue.
type record struct {
	mu   sync.Mutex
	body []byte
	etag engine.ETag
}

// commit carries out a command that writes the record.
func (r *record) commit(encoded []byte) *group.Outcome {
	c, err := command.Decode(encoded)
	if err != nil {
		return &group.Outcome{Err: err}
	}
	o := c.Batches[0].Operations[0]
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.IfMatch != 0 && o.IfMatch != r.etag {
		return &group.Outcome{Index: 1, Results: []engine.BatchResult{{Err: engine.ErrPrecondition}}}
	}
	r.etag++
	r.body = bytes.Clone(o.Body)
	return &group.Outcome{Index: 1, Results: []engine.BatchResult{{Metas: []engine.Meta{{ETag: r.etag}}}}}
}

func (r *record) item() *engine.Item {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &engine.Item{Meta: engine.Meta{Key: catalogueKey, ID: ownerID, ETag: r.etag}, Body: r.body}
}

// orders is a container that was made while the cluster ran.
func orders(number uint64) cluster.Container {
	return cluster.Container{Name: "orders", PartitionKey: []string{"/k"}, Number: number, DefaultTTL: 20, MutableTTL: true, UniqueKeys: [][]string{{"/u"}, {"/v", "/w"}}}
}

// whole is the group with which orders begins.
func whole(number uint64) *topology.Group { return wholeOf("orders", number) }

func wholeOf(name string, number uint64) *topology.Group {
	return topology.New(topology.GroupID(number<<32|1), name, partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}, 1)
}

func (n heard) Client(_ context.Context, c *transport.Conn) {
	for {
		kind, payload, err := c.Read()
		if err != nil {
			return
		}
		q, err := protocol.DecodeRequest(kind, payload)
		status, bad := json.Marshal(host.Status{Node: 1, Containers: n.containers})
		h := protocol.Head{Number: q.Number}
		if kind == protocol.Alter && n.lost.Add(-1) >= 0 {
			return
		}
		c.Send(protocol.Answer, func(dst []byte) []byte {
			switch {
			case err != nil || bad != nil:
				return h.AppendError(dst, errors.Join(err, bad))
			case kind == protocol.Routes:
				return h.AppendRoutes(dst, nil, n.groups, nil)
			case kind == protocol.Status:
				return h.AppendText(dst, status)
			case kind == protocol.Propose && n.record == nil:
				return h.AppendOutcome(dst, &group.Outcome{Index: 1, Duplicate: true})
			case kind == protocol.Propose:
				return h.AppendOutcome(dst, n.record.commit(q.Command))
			case kind == protocol.Read && q.Read.ID == ownerID:
				return h.AppendItem(dst, n.record.item())
			case kind == protocol.Read && q.Read.ID == "there":
				h.Applied = n.applied
				return h.AppendItem(dst, &engine.Item{Meta: engine.Meta{Key: q.Read.Key, ID: q.Read.ID, ETag: 1}, Body: []byte(`{"id":"there","k":"a"}`)})
			case kind == protocol.Read:
				h.Applied = n.applied
				return h.AppendError(dst, engine.ErrNotFound)
			case kind == protocol.Alter && q.Change.What == protocol.Drop:
				return h.AppendText(dst, nil)
			case kind == protocol.Alter:
				return h.AppendError(dst, engine.ErrExists)
			}
			return h.AppendError(dst, engine.ErrInvalid)
		})
	}
}

// open returns a store of a cluster with one node that answers, and some that do not.
func open(t *testing.T, node heard, silent ...uint64) *Store {
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
	d := &cluster.Cluster{Nodes: []cluster.Node{{ID: 1, Address: l.Addr().String()}}}
	for _, id := range silent {
		away, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		must(t, away.Close())
		d.Nodes = append(d.Nodes, cluster.Node{ID: id, Address: away.Addr().String()})
	}
	c := client.New(client.Config{Cluster: d, Credentials: creds})
	t.Cleanup(c.Close)
	s, err := Open(t.Context(), Config{Client: c, Wait: 300 * time.Millisecond})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// TestContainerAway: a container whose nodes do not answer is not taken for one that is not there, whose record a gateway that
// starts deletes. One of three nodes does not know: it may be the only one that has not heard.
func TestContainerAway(t *testing.T) {
	def := engine.ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: 20 * time.Second, UniqueKeys: orders(1).UniqueKeys}
	const first = cluster.FirstNumber
	for name, tc := range map[string]struct {
		node   heard
		silent []uint64
		gone   bool // there is no such container
	}{
		"heard of, and no groups":        {heard{containers: []cluster.Container{orders(first)}}, nil, false},
		"not heard of":                   {heard{}, nil, true},
		"not heard of by one of three":   {heard{}, []uint64{2, 3}, false},
		"groups, and not heard of":       {heard{groups: []*topology.Group{whole(first)}}, nil, false},
		"heard of the one of before":     {heard{groups: []*topology.Group{whole(first + 1)}, containers: []cluster.Container{{Name: "orders", PartitionKey: []string{"/old"}, Number: first}}}, nil, false},
		"heard of a newer one":           {heard{groups: []*topology.Group{whole(first)}, containers: []cluster.Container{{Name: "orders", PartitionKey: []string{"/new"}, Number: first + 1}}}, nil, true},
		"not heard of, with a node away": {heard{}, []uint64{2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open(t, tc.node, tc.silent...).Container(t.Context(), "orders", def)
			var fault *gateway.Fault
			if is := errors.Is(err, engine.ErrNoContainer); is != tc.gone || !is && (!errors.As(err, &fault) || fault.Status != http.StatusServiceUnavailable) {
				t.Error(err)
			}
		})
	}
}

// TestStartsBesideCluster: a gateway that starts while two of three nodes do not answer yet waits for them.
func TestStartsBesideCluster(t *testing.T) {
	s := open(t, heard{}, 2, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := s.EnsureContainer(ctx, "_gateway", engine.ContainerDef{PartitionKey: []string{"/key"}})
	if err == nil || ctx.Err() == nil {
		t.Errorf("it has given up early: %v", err)
	}
}

// TestForeignContainer: a container with another definition, which a cluster cannot change, is not the one that a gateway has made.
func TestForeignContainer(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*engine.ContainerDef)
		own    bool
	}{
		"the same":                  {func(*engine.ContainerDef) {}, true},
		"another index policy":      {func(d *engine.ContainerDef) { d.Index = engine.IndexAll() }, true},
		"any":                       {func(d *engine.ContainerDef) { *d = engine.ContainerDef{} }, true},
		"another key":               {func(d *engine.ContainerDef) { d.PartitionKey = []string{"/other"} }, false},
		"a longer key":              {func(d *engine.ContainerDef) { d.PartitionKey = []string{"/k", "/l"} }, false},
		"no unique keys":            {func(d *engine.ContainerDef) { d.UniqueKeys = nil }, false},
		"another unique key":        {func(d *engine.ContainerDef) { d.UniqueKeys = [][]string{{"/u"}, {"/v"}} }, false},
		"no default ttl":            {func(d *engine.ContainerDef) { d.DefaultTTL = 0 }, true},
		"a default ttl of for ever": {func(d *engine.ContainerDef) { d.DefaultTTL = engine.NoExpiry }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, heard{groups: []*topology.Group{whole(cluster.FirstNumber)}, containers: []cluster.Container{orders(cluster.FirstNumber)}})
			def := engine.ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: 20 * time.Second, UniqueKeys: orders(1).UniqueKeys}
			tc.change(&def)
			if _, err := s.Container(t.Context(), "orders", def); tc.own && err != nil || !tc.own && !errors.Is(err, engine.ErrNoContainer) {
				t.Error(err)
			}
		})
	}
}

// TestCreatedAlready: the answer to the creation of a container is lost, and the next answer says that the container exists.
// The gateway takes it for its own only if the definition is the one that it asked for. Else another program may have made
// it, and the gateway would show and drop it.
func TestCreatedAlready(t *testing.T) {
	for name, tc := range map[string]struct {
		key  string
		lost int64
		want error
	}{
		"there":                 {"/k", 0, engine.ErrExists},
		"lost, and as wanted":   {"/k", 1, nil},
		"lost, and another key": {"/other", 1, engine.ErrExists},
	} {
		t.Run(name, func(t *testing.T) {
			node := heard{groups: []*topology.Group{whole(cluster.FirstNumber)}, containers: []cluster.Container{orders(cluster.FirstNumber)}, lost: new(atomic.Int64)}
			node.lost.Store(tc.lost)
			def := engine.ContainerDef{PartitionKey: []string{tc.key}, DefaultTTL: 20 * time.Second, UniqueKeys: orders(1).UniqueKeys}
			s := open(t, node)
			s.wait = 5 * time.Second
			if _, err := s.CreateContainer(t.Context(), "orders", def); !errors.Is(err, tc.want) || errors.Is(err, engine.ErrNoContainer) {
				t.Error(err)
			}
		})
	}
}

// TestDecided: the answer to a write is lost, and the group knows only that it has decided the command: it has carried it out, or refused
// it. If the document is there, the write was carried out, or makes no difference. That is not known of one with a
// condition: another client may have written the same document, by the same patch of what was there.
func TestDecided(t *testing.T) {
	s := open(t, heard{groups: []*topology.Group{whole(cluster.FirstNumber)}, containers: []cluster.Container{orders(cluster.FirstNumber)}})
	s.wait = 5 * time.Second
	c, err := s.Container(t.Context(), "orders", engine.ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: 20 * time.Second, UniqueKeys: orders(1).UniqueKeys})
	must(t, err)
	there, other := []byte(`{"id":"there","k":"a"}`), []byte(`{"id":"there","k":"a","n":1}`)
	for name, tc := range map[string]struct {
		o     command.Operation
		known bool
	}{
		"create":                         {command.Operation{Kind: command.Create, Body: there}, true},
		"upsert":                         {command.Operation{Kind: command.Upsert, Body: there}, true},
		"replace":                        {command.Operation{Kind: command.Replace, Body: there}, true},
		"another document":               {command.Operation{Kind: command.Replace, Body: other}, false},
		"none":                           {command.Operation{Kind: command.Create, Body: []byte(`{"id":"none","k":"a"}`)}, false},
		"replace on condition":           {command.Operation{Kind: command.Replace, Body: there, IfMatch: 7}, false},
		"replace on condition, in vain":  {command.Operation{Kind: command.Replace, Body: there, IfMatch: 1}, false},
		"upsert on condition":            {command.Operation{Kind: command.Upsert, Body: there, IfMatch: 7}, false},
		"check":                          {command.Operation{Kind: command.Check, ID: "there", IfMatch: 1}, false},
		"check that there is none":       {command.Operation{Kind: command.Check, ID: "none"}, false},
		"delete":                         {command.Operation{Kind: command.Delete, ID: "none"}, false},
		"delete on condition":            {command.Operation{Kind: command.Delete, ID: "none", IfMatch: 7}, false},
		"delete of an item that is back": {command.Operation{Kind: command.Delete, ID: "there"}, false},
	} {
		metas, err := c.(*items).batch(t.Context(), engine.StringKey("a"), tc.o)
		fault, failed := errors.AsType[*gateway.Fault](err)
		switch {
		case tc.known && err == nil && len(metas) == 1 && metas[0].ETag == 1 && metas[0].ID == "there":
		case !tc.known && failed && fault.Status == http.StatusRequestTimeout:
		default:
			t.Errorf("%s: %v, %v", name, metas, err)
		}
	}
}

// TestSuperseded: a gateway whose catalogue another one has taken over changes and drops no container of the cluster, also before it
// has heard of that.
func TestSuperseded(t *testing.T) {
	const first = cluster.FirstNumber
	catalogue := cluster.Container{Name: "_gateway", PartitionKey: []string{"/key"}, Number: first + 1}
	node := heard{
		groups:     []*topology.Group{whole(first), wholeOf(catalogue.Name, catalogue.Number)},
		containers: []cluster.Container{orders(first), catalogue},
		lost:       new(atomic.Int64), // counts changes below 0
		record:     new(record),
	}
	before := open(t, node)
	before.wait = 5 * time.Second
	after, err := Open(t.Context(), Config{Client: before.c, Wait: before.wait})
	must(t, err)
	t.Cleanup(func() { must(t, after.Close()) })
	takeOver := func(s *Store) {
		_, err := s.EnsureContainer(t.Context(), catalogue.Name, engine.ContainerDef{PartitionKey: catalogue.PartitionKey})
		must(t, err)
	}
	takeOver(before)
	c, err := before.Container(t.Context(), "orders", engine.ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: 20 * time.Second, UniqueKeys: orders(1).UniqueKeys})
	must(t, err)
	takeOver(after)
	for name, change := range map[string]func() error{
		"drop":         func() error { return before.DropContainer(t.Context(), "orders") },
		"default ttl":  func() error { return c.SetDefaultTTL(t.Context(), time.Minute) },
		"index policy": func() error { return c.SetIndexPolicy(t.Context(), engine.IndexAll()) },
	} {
		fault, failed := errors.AsType[*gateway.Fault](change())
		if !failed || fault.Status != http.StatusServiceUnavailable || !errors.Is(before.Err(), ErrSuperseded) || node.lost.Load() < 0 {
			t.Errorf("%s: %v, %v, %d changes of the cluster", name, fault, before.Err(), -node.lost.Load())
		}
	}
	must(t, after.DropContainer(t.Context(), "orders"))
	if n := -node.lost.Load(); n != 1 {
		t.Errorf("%d changes of the cluster, want that of the gateway that has taken over", n)
	}
}

// TestSessionAhead: a read whose session has an entry that the cluster does not have is 404 with sub-status 1002, as over one store,
// whether or not there is an item. Only at the level session is a token asked for.
func TestSessionAhead(t *testing.T) {
	s := open(t, heard{groups: []*topology.Group{whole(cluster.FirstNumber)}, containers: []cluster.Container{orders(cluster.FirstNumber)}, applied: 5})
	c, err := s.Container(t.Context(), "orders", engine.ContainerDef{PartitionKey: []string{"/k"}, DefaultTTL: 20 * time.Second, UniqueKeys: orders(1).UniqueKeys})
	must(t, err)
	for _, tc := range []struct {
		level string
		entry int
		ahead bool
	}{{"Session", 5, false}, {"Session", 6, true}, {"Eventual", 6, false}, {"Strong", 6, false}} {
		for _, id := range []string{"there", "none"} {
			ctx, err := s.Begin(t.Context(), tc.level, fmt.Sprintf("%d:-1#%d", whole(cluster.FirstNumber).ID, tc.entry))
			must(t, err)
			_, err = c.Read(ctx, engine.StringKey("a"), id)
			fault, ahead := errors.AsType[*gateway.Fault](err)
			switch {
			case ahead != tc.ahead, ahead && (fault.Status != http.StatusNotFound || fault.SubStatus != 1002):
			case !ahead && errors.Is(err, engine.ErrNotFound) != (id == "none"), !ahead && err != nil && id == "there":
			default:
				continue
			}
			t.Errorf("%s, entry %d, item %q: %v", tc.level, tc.entry, id, err)
		}
	}
}
