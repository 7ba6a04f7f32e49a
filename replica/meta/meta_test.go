package meta

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/placement"
	"github.com/cleavestore/cleave/replica/topology"
)

// client is that of an etcd within the test.
var client *clientv3.Client

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "meta")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		s, err := Start(context.Background(), Embedded{
			Dir: dir, Name: "a", Members: []Member{{"a", "http://127.0.0.1:0"}}, Client: "http://127.0.0.1:0",
		})
		if err != nil {
			panic(err)
		}
		defer s.Close()
		client = s.Client()
		return m.Run()
	}())
}

var clusters atomic.Int32

// open returns the store of a cluster that is the test's own.
func open(t *testing.T) *Store {
	s, err := New(client, fmt.Sprint(t.Name(), clusters.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

var all = partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}

// following is a Follow that runs in the background.
type following struct {
	m       *topology.Map
	changes chan *topology.Group
	end     func() error
}

func follow(t *testing.T, s *Store) *following {
	ctx, cancel := context.WithCancel(t.Context())
	f := &following{m: topology.NewMap(), changes: make(chan *topology.Group, 4*page)}
	loaded, ended := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() {
		ended <- s.Follow(ctx, f.m, func() { once.Do(func() { close(loaded) }) }, func(g *topology.Group) { f.changes <- g })
	}()
	select {
	case <-loaded:
	case err := <-ended:
		t.Fatal(err)
	}
	f.end = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = f.end() })
	return f
}

// TestGroups: a map follows what is published, splits as a whole; what is old is left out; a
// map that begins later has the same.
func TestGroups(t *testing.T) {
	s := open(t)
	f := follow(t, s)
	g := topology.New(1, "c", all, 1, 2, 3)
	if err := s.Publish(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if got := <-f.changes; !reflect.DeepEqual(got, g) {
		t.Fatalf("%+v", got)
	}
	left, right, err := g.Split(partmap.Midpoint(all), 2)
	if err != nil {
		t.Fatal(err)
	}
	if err = s.Publish(t.Context(), left, right); err != nil {
		t.Fatal(err)
	}
	if err = s.Publish(t.Context(), g, left, right); err != nil { // old, and again
		t.Fatal(err)
	}
	<-f.changes
	<-f.changes
	got, err := client.Get(t.Context(), s.under("groups"), clientv3.WithPrefix())
	if err != nil || len(got.Kvs) != 2 || got.Kvs[0].ModRevision != got.Kvs[1].ModRevision {
		t.Fatalf("the halves are not of one transaction: %v, %v", got, err)
	}
	later := follow(t, s)
	for _, m := range []*topology.Map{f.m, later.m} {
		for _, want := range []*topology.Group{left, right} {
			e := want.Range.Min
			if have := m.Find("c", &e); !reflect.DeepEqual(have, want) {
				t.Errorf("%+v, want %+v", have, want)
			}
		}
	}
	if err = s.Drop(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	next, err := left.Add(9, topology.Incoming)
	if err != nil {
		t.Fatal(err)
	}
	if err = s.Publish(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	<-f.changes // comes after the drop
	if f.m.Group(2) != nil || f.m.Len() != 1 {
		t.Error("a group that was dropped is in the map")
	}
	if err = f.end(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err = s.Publish(t.Context(), make([]*topology.Group, most+1)...); !errors.Is(err, ErrTooMany) {
		t.Error(err)
	}
}

// TestRace: of two descriptors that are published, the one with the later epoch stays, in either order.
func TestRace(t *testing.T) {
	s := open(t)
	history := []*topology.Group{topology.New(1, "c", all, 1)}
	for n := range 30 {
		g, err := history[n].Add(topology.NodeID(n+2), topology.Learner)
		if err != nil {
			t.Fatal(err)
		}
		history = append(history, g)
	}
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := range history {
				if err := s.Publish(t.Context(), history[(i*7+w*11)%len(history)]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	f := follow(t, s)
	if g := f.m.Group(1); g == nil || g.Epoch != history[len(history)-1].Epoch {
		t.Errorf("%+v", g)
	}
}

// TestPages: a map has all of more groups than are read at once, with changes between.
func TestPages(t *testing.T) {
	s := open(t)
	ranges := partmap.Ranges(2*page + 500)
	for i := 0; i < len(ranges); i += most {
		var some []*topology.Group
		for j := i; j < min(i+most, len(ranges)); j++ {
			some = append(some, topology.New(topology.GroupID(j+1), "c", ranges[j], 1, 2, 3))
		}
		if err := s.Publish(t.Context(), some...); err != nil {
			t.Fatal(err)
		}
	}
	if f := follow(t, s); f.m.Len() != len(ranges) {
		t.Errorf("%d groups of %d", f.m.Len(), len(ranges))
	}
}

// TestCompacted: when etcd has dropped changes that a follower has not seen, the follower
// reads everything anew, and knows what was dropped meanwhile.
func TestCompacted(t *testing.T) {
	s := open(t)
	if err := s.Publish(t.Context(), topology.New(1, "c", all, 1), topology.New(2, "d", all, 1)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := topology.NewMap()
	loads := 0
	err := s.Follow(ctx, m, func() {
		if loads++; loads == 2 {
			cancel()
			return
		}
		// Before the watch begins: two changes, and the first is dropped.
		if err := s.Drop(ctx, 1); err != nil {
			t.Error(err)
		}
		if err := s.Publish(ctx, topology.New(3, "e", all, 1)); err != nil {
			t.Error(err)
		}
		got, err := client.Get(ctx, "x")
		if err != nil {
			t.Error(err)
		}
		if _, err = client.Compact(ctx, got.Header.Revision); err != nil {
			t.Error(err)
		}
	}, nil)
	if !errors.Is(err, context.Canceled) || loads != 2 {
		t.Fatalf("%d loads, %v", loads, err)
	}
	if m.Group(1) != nil || m.Group(2) == nil || m.Group(3) == nil {
		t.Errorf("the map has %v", m.IDs())
	}
}

// TestDamage: a value that is no descriptor, no node or no number ends the call with the name of its key.
func TestDamage(t *testing.T) {
	s := open(t)
	put := func(key, value string) {
		if _, err := client.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	check := func(key string, err error) {
		t.Helper()
		if !errors.Is(err, engine.ErrCorrupt) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
	put(s.key("groups", 1), "rubbish") // 'r' is a version that this program does not know
	err := s.Follow(t.Context(), topology.NewMap(), nil, nil)
	if !errors.Is(err, engine.ErrTooNew) || !strings.Contains(err.Error(), s.key("groups", 1)) {
		t.Error(err)
	}
	put(s.key("groups", 1), "\x01")
	check(s.key("groups", 1), s.Follow(t.Context(), topology.NewMap(), nil, nil))
	check(s.key("groups", 1), s.Publish(t.Context(), topology.New(1, "c", all, 1)))
	put(s.key("groups", 1), string(topology.New(7, "c", all, 1).Append(nil)))
	check(s.key("groups", 1), s.Follow(t.Context(), topology.NewMap(), nil, nil))
	put(s.under("nodes")+"x", "{}")
	put(s.key("nodes", 1), "{")
	check(s.key("nodes", 1), s.FollowNodes(t.Context(), func() {}, func(Node) {}, func(topology.NodeID) {}))
	put(s.key("steps", 1), "[]")
	check(s.key("steps", 1), s.FollowSteps(t.Context(), func(placement.Step) {}))
	put(s.prefix+"next/groups", "many")
	_, err = s.NewIDs(t.Context(), "groups", 1)
	check("next/groups", err)
	for _, name := range []string{"", "a/b"} {
		if _, err = New(client, name); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestNewIDs: processes that ask at once get different ids.
func TestNewIDs(t *testing.T) {
	s := open(t)
	var mu sync.Mutex
	seen := make(map[uint64]bool)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := uint64(1); n <= 5; n++ {
				first := must[uint64](t)(s.NewIDs(t.Context(), "groups", n))
				mu.Lock()
				for id := first; id < first+n; id++ {
					if seen[id] || id == 0 {
						t.Errorf("id %d twice", id)
					}
					seen[id] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 4*15 {
		t.Errorf("%d ids", len(seen))
	}
}

// TestNodes: nodes come, change, leave and lose their leases; a second process with the id
// of one waits.
func TestNodes(t *testing.T) {
	s := open(t)
	n := Node{ID: 7, Address: "a:1", Zone: "z", Bytes: 1 << 40, Load: 1000}
	first := must[*Membership](t)(s.Join(t.Context(), n, time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	loaded, told := make(chan struct{}), make(chan string, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- s.FollowNodes(ctx, func() { close(loaded) },
			func(n Node) { told <- fmt.Sprintf("%+v", n) }, func(id topology.NodeID) { told <- fmt.Sprint("gone ", id) })
	}()
	<-loaded
	expect := func(want string) {
		t.Helper()
		if got := <-told; got != want {
			t.Fatalf("told %s, want %s", got, want)
		}
	}
	expect(fmt.Sprintf("%+v", n))
	n.Zone = "y"
	if err := first.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	expect(fmt.Sprintf("%+v", n))

	// A second process waits, in vain if its context ends.
	done, end := context.WithCancel(t.Context())
	end()
	if _, err := s.Join(done, n, time.Hour); err == nil {
		t.Error("a process joined with the id of another one, and a context that has ended")
	}
	joined := make(chan *Membership, 1)
	go func() {
		m, err := s.Join(t.Context(), Node{ID: 7, Address: "b:1"}, time.Hour)
		if err != nil {
			t.Error(err)
		}
		joined <- m
	}()
	if _, err := client.Revoke(t.Context(), first.lease); err != nil { // as when it had been silent
		t.Fatal(err)
	}
	<-first.Lost()
	expect("gone 7")
	expect(fmt.Sprintf("%+v", Node{ID: 7, Address: "b:1"}))
	second := <-joined
	if err := first.Update(t.Context(), n); !errors.Is(err, ErrNodeTaken) {
		t.Errorf("a process that has lost its lease changed the node: %v", err)
	}
	if err := second.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("gone 7")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestTaken: a process that waits in vain for an id is told who has it.
func TestTaken(t *testing.T) {
	s := open(t)
	m := must[*Membership](t)(s.Join(t.Context(), Node{ID: 3}, time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := s.Join(ctx, Node{ID: 3}, time.Hour)
		failed <- err
	}()
	// The second process has asked when there is a second lease.
	for {
		leases, err := client.Leases(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(leases.Leases) > 1 {
			break
		}
	}
	cancel()
	if err := <-failed; err == nil || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := m.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestPlanner: one process plans; when it has lost the right, its steps are refused however
// late they come; a step is told until it is finished.
func TestPlanner(t *testing.T) {
	s := open(t)
	old := must[*Planner](t)(s.Campaign(t.Context(), 1, time.Hour))
	step := placement.Step{Kind: placement.Add, Group: 4, Epoch: 9, Node: 2}
	if err := old.Order(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	second := make(chan *Planner, 1)
	go func() { second <- must[*Planner](t)(s.Campaign(t.Context(), 2, time.Hour)) }()
	if _, err := client.Revoke(t.Context(), old.session.Lease()); err != nil { // as when it was silent
		t.Fatal(err)
	}
	p := <-second
	if err := old.Order(t.Context(), placement.Step{Kind: placement.Split, Group: 4, Epoch: 9}); !errors.Is(err, ErrNotPlanner) {
		t.Errorf("a process that has lost the election ordered a step: %v", err)
	}
	later := placement.Step{Kind: placement.Promote, Group: 5, Epoch: 10, Replica: 3}
	if err := p.Order(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	// Finishing an older step of the group leaves the newer one.
	if err := s.Finish(t.Context(), placement.Step{Kind: placement.Add, Group: 5, Epoch: 8, Node: 1}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var told []placement.Step
	err := s.FollowSteps(ctx, func(st placement.Step) {
		if told = append(told, st); len(told) == 2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || !reflect.DeepEqual(told, []placement.Step{step, later}) {
		t.Errorf("%+v, %v", told, err)
	}
	if err = s.Finish(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Steps(t.Context()); err != nil || !reflect.DeepEqual(got, []placement.Step{later}) {
		t.Errorf("steps that are not finished: %+v, %v", got, err)
	}
	if got, err := client.Get(t.Context(), s.under("steps"), clientv3.WithPrefix(), clientv3.WithCountOnly()); err != nil || got.Count != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if err = p.Order(t.Context(), make([]placement.Step, most+1)...); !errors.Is(err, ErrTooMany) {
		t.Error(err)
	}
	if err = p.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err = p.Order(t.Context(), later); !errors.Is(err, ErrNotPlanner) {
		t.Errorf("after Resign: %v", err)
	}
}

// silence is an etcd that does not answer any more from some moment on.
type silence struct {
	clientv3.KV
	clientv3.Watcher
	waits chan struct{} // closed when Watch is called
	once  sync.Once
	on    atomic.Bool
}

func (s *silence) Watch(ctx context.Context, key string, o ...clientv3.OpOption) clientv3.WatchChan {
	s.once.Do(func() { close(s.waits) })
	return s.Watcher.Watch(ctx, key, o...)
}

func (s *silence) Txn(ctx context.Context) clientv3.Txn {
	if s.on.Load() {
		return silentTxn{ctx}
	}
	return s.KV.Txn(ctx)
}

type silentTxn struct{ ctx context.Context }

func (t silentTxn) If(...clientv3.Cmp) clientv3.Txn  { return t }
func (t silentTxn) Then(...clientv3.Op) clientv3.Txn { return t }
func (t silentTxn) Else(...clientv3.Op) clientv3.Txn { return t }
func (t silentTxn) Commit() (*clientv3.TxnResponse, error) {
	<-t.ctx.Done()
	return nil, t.ctx.Err()
}

// TestCampaignEnds: a node that waits for the right to plan ends although the store does not answer any
// more.
func TestCampaignEnds(t *testing.T) {
	s := open(t)
	must[*Planner](t)(s.Campaign(t.Context(), 1, time.Hour))
	lost := &silence{KV: client.KV, Watcher: client.Watcher, waits: make(chan struct{})}
	other := clientv3.NewCtxClient(context.Background())
	other.KV, other.Watcher, other.Lease = lost, lost, client.Lease
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := (&Store{client: other, prefix: s.prefix, first: 1}).Campaign(ctx, 2, time.Hour)
		done <- err
	}()
	<-lost.waits
	lost.on.Store(true)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestHolds: a group that is held has no step, and one with a step is not held, in whichever order both are
// asked for; a hold ends with its lease.
func TestHolds(t *testing.T) {
	s := open(t)
	p := must[*Planner](t)(s.Campaign(t.Context(), 1, time.Hour))
	step := placement.Step{Kind: placement.Remove, Group: 4, Epoch: 9, Replica: 2}
	other := placement.Step{Kind: placement.Add, Group: 5, Epoch: 9, Node: 2}
	if err := p.Order(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Hold(t.Context(), 4, 9, time.Hour); !errors.Is(err, ErrHeld) {
		t.Errorf("a hold beside a step: %v", err)
	}
	// The group has changed since the step was planned.
	h := must[*Hold](t)(s.Hold(t.Context(), 4, 10, time.Hour))
	if got, err := s.Steps(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("steps of a group that is held: %+v, %v", got, err)
	}
	if _, err := s.Hold(t.Context(), 4, 10, time.Hour); !errors.Is(err, ErrHeld) {
		t.Errorf("a second hold: %v", err)
	}
	if got, err := s.Holds(t.Context()); err != nil || !reflect.DeepEqual(got, []topology.GroupID{4}) {
		t.Errorf("holds: %v, %v", got, err)
	}
	step.Epoch = 10
	if err := p.Order(t.Context(), other, step); !errors.Is(err, ErrHeld) {
		t.Errorf("a step beside a hold: %v", err)
	}
	if err := p.Order(t.Context(), other); err != nil {
		t.Error(err)
	}
	if err := h.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-h.Lost()
	if err := p.Order(t.Context(), step); err != nil {
		t.Error(err)
	}
	// A hold whose process is silent ends with its lease.
	h = must[*Hold](t)(s.Hold(t.Context(), 6, 1, time.Hour))
	if _, err := client.Revoke(t.Context(), h.session.Lease()); err != nil {
		t.Fatal(err)
	}
	if err := p.Order(t.Context(), placement.Step{Kind: placement.Split, Group: 6, Epoch: 1}); err != nil {
		t.Error(err)
	}
	if err := p.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Order(t.Context(), step); !errors.Is(err, ErrNotPlanner) {
		t.Errorf("after Resign: %v", err)
	}
}

// TestStart: what cannot run is refused with its reason; what was stored is there after a restart.
func TestStart(t *testing.T) {
	e := Embedded{Dir: t.TempDir(), Name: "b", Members: []Member{{"a", "http://127.0.0.1:0"}}, Client: "http://127.0.0.1:0"}
	if _, err := Start(t.Context(), e); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Error(err)
	}
	e.Name, e.Client = "a", "https://127.0.0.1:0"
	if _, err := Start(t.Context(), e); err == nil || !strings.Contains(err.Error(), "https") {
		t.Error(err)
	}
	e.Client = "http://127.0.0.1:0"
	for round := range 2 {
		server := must[*Server](t)(Start(t.Context(), e))
		s := must[*Store](t)(New(server.Client(), "c"))
		if first := must[uint64](t)(s.NewIDs(t.Context(), "nodes", 5)); first != uint64(1+5*round) {
			t.Errorf("round %d: id %d", round, first)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDrop: a container that was dropped has no groups in the map, and gets none, nor steps; its name is
// taken until it is released, and then that of another one with a higher number. Containers of the
// description are dropped too.
func TestDrop(t *testing.T) {
	s := open(t)
	made := must[cluster.Container](t)(s.CreateContainer(t.Context(), cluster.Container{Name: "a/b", PartitionKey: []string{"/k"}, Partitions: 2, Nodes: []uint64{2, 9}}))
	first := topology.New(topology.GroupID(made.Number<<32|1), "a/b", all, 1, 2, 3)
	other := topology.New(1<<32|1, "described", all, 1, 2)
	if err := s.Publish(t.Context(), first, other); err != nil {
		t.Fatal(err)
	}
	p := must[*Planner](t)(s.Campaign(t.Context(), 1, time.Minute))
	step := placement.Step{Kind: placement.Split, Group: first.ID, Epoch: 1}
	if err := p.Order(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DropContainer(t.Context(), "none", 0, 0); !errors.Is(err, engine.ErrNoContainer) {
		t.Error("one that is not there: ", err)
	}
	want := Dropped{Number: made.Number, Name: "a/b", Voters: 3, Nodes: []topology.NodeID{1, 2, 3, 9}}
	for range 2 { // again changes nothing
		if d := must[Dropped](t)(s.DropContainer(t.Context(), "a/b", 0, 0)); !reflect.DeepEqual(d, want) {
			t.Errorf("%+v, want %+v", d, want)
		}
	}
	later := *first
	later.Epoch++
	if err := s.Publish(t.Context(), &later, other); err != nil {
		t.Fatal(err)
	}
	if err := p.Order(t.Context(), step); !errors.Is(err, ErrHeld) {
		t.Error("a step for a group of it: ", err)
	}
	picture := func() Picture { t.Helper(); return must[Picture](t)(s.Picture(t.Context())) }
	if now := picture(); len(now.Containers) != 0 || len(now.Groups) != 1 || now.Groups[0].ID != other.ID || len(now.Dropped) != 1 || !reflect.DeepEqual(now.Dropped[0], want) {
		t.Errorf("%+v", now)
	}
	if steps := must[[]placement.Step](t)(s.Steps(t.Context())); len(steps) != 0 {
		t.Errorf("steps %v", steps)
	}
	again := cluster.Container{Name: "a/b", PartitionKey: []string{"/k"}, Partitions: 1}
	if _, err := s.CreateContainer(t.Context(), again); !errors.Is(err, engine.ErrExists) {
		t.Error("the name is taken: ", err)
	}
	for range 2 {
		if err := s.Release(t.Context(), want); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.DropContainer(t.Context(), "a/b", 0, made.Number); !errors.Is(err, engine.ErrNoContainer) {
		t.Error("after the release: ", err)
	}
	again = must[cluster.Container](t)(s.CreateContainer(t.Context(), again))
	if again.Number <= made.Number {
		t.Errorf("number %d, before %d", again.Number, made.Number)
	}
	if err := s.Release(t.Context(), want); err != nil { // the name is another one's by now
		t.Fatal(err)
	}
	if _, err := s.CreateContainer(t.Context(), again); !errors.Is(err, engine.ErrExists) {
		t.Error("the name is taken again: ", err)
	}
	if d, err := s.DropContainer(t.Context(), "a/b", made.Number, 0); !errors.Is(err, engine.ErrNoContainer) {
		t.Errorf("by the number of the one before: %+v, %v", d, err)
	}
	if d := must[Dropped](t)(s.DropContainer(t.Context(), "described", 0, 1)); d.Number != 1 || d.Voters != 2 {
		t.Errorf("%+v", d)
	}
	for range 2 { // what a node knows of a store that was lost
		if err := s.NoteDropped(t.Context(), Dropped{Number: 5, Name: "old"}); err != nil {
			t.Fatal(err)
		}
	}
	var told []Dropped
	stop := errors.New("enough")
	if err := s.FollowDropped(t.Context(), func(d Dropped) error {
		if told = append(told, d); len(told) == 3 {
			return stop
		}
		return nil
	}); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if !told[1].Released || told[0].Released || told[0].Number != 1 || told[1].Number != 5 || !told[2].Released || told[2].Number != made.Number {
		t.Errorf("%+v", told)
	}
}
