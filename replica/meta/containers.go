package meta

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/placement"
	"github.com/cleavestore/cleave/replica/topology"
)

// CreateContainer makes a container known, with a number that no other one has had, and returns it
// with the number. Its groups begin on t.Nodes. Errors: engine.ErrExists if there is one with the
// name, or one is being dropped.
func (s *Store) CreateContainer(ctx context.Context, t cluster.Container) (cluster.Container, error) {
	n, err := s.NewIDs(ctx, "containers", 1)
	if err != nil {
		return t, err
	}
	t.Number = cluster.FirstNumber + n - 1
	value, err := json.Marshal(t)
	if err != nil {
		return t, err
	}
	name := s.nameKey(t.Name)
	done, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(name), "=", 0)).
		Then(clientv3.OpPut(name, fmt.Sprint(t.Number)), clientv3.OpPut(s.key("containers", t.Number), string(value))).Commit()
	if err == nil && !done.Succeeded {
		err = fmt.Errorf("container %q: %w", t.Name, engine.ErrExists)
	}
	return t, err
}

// SetIndexPolicy changes the index policy of a container, and returns its new definition. described is the container as the
// description of the cluster has it, with its number, which counts if the store has none of the name; nil if there is none.
// A policy that indexes the same as the present one changes nothing. Error: engine.ErrNoContainer.
func (s *Store) SetIndexPolicy(ctx context.Context, name string, described *cluster.Container, index engine.IndexPolicy) (cluster.Container, error) {
	return s.redefine(ctx, name, described, func(t *cluster.Container) (bool, error) {
		if cluster.SameIndex(t.Index, index) {
			return false, nil
		}
		t.Index = index
		t.Revision++
		return true, nil
	})
}

// SetDefaultTTL is SetIndexPolicy for the default time to live, in seconds. Errors: engine.ErrNoContainer, those of cluster.Container.Retime.
func (s *Store) SetDefaultTTL(ctx context.Context, name string, described *cluster.Container, seconds int64) (cluster.Container, error) {
	return s.redefine(ctx, name, described, func(t *cluster.Container) (bool, error) { return t.Retime(seconds) })
}

func (s *Store) redefine(ctx context.Context, name string, described *cluster.Container, change func(*cluster.Container) (bool, error)) (t cluster.Container, err error) {
	for {
		got, err := s.client.Get(ctx, s.nameKey(name))
		if err != nil {
			return t, err
		}
		number := uint64(0)
		if len(got.Kvs) > 0 {
			number, err = numberOf(got.Kvs[0])
		} else if described != nil {
			number = described.Number
		}
		if err != nil {
			return t, err
		}
		key, dropped := s.key("containers", number), s.key("drops", number)
		now, err := s.client.Txn(ctx).Then(clientv3.OpGet(key), clientv3.OpGet(dropped)).Commit()
		if err != nil {
			return t, err
		}
		revision := int64(0)
		record := now.Responses[0].GetResponseRange().Kvs
		switch {
		case number == 0, len(now.Responses[1].GetResponseRange().Kvs) > 0:
			return t, fmt.Errorf("container %q: %w", name, engine.ErrNoContainer)
		case len(record) > 0:
			revision, t = record[0].ModRevision, cluster.Container{}
			if err = decodeJSON(record[0], &t); err != nil {
				return t, err
			}
		case described != nil && described.Number == number:
			t = *described
		default: // the number was made in a store of before
			return t, fmt.Errorf("container %q: %w", name, engine.ErrNoContainer)
		}
		if changed, err := change(&t); err != nil || !changed {
			return t, err
		}
		value, err := json.Marshal(t)
		if err != nil {
			return t, err
		}
		done, err := s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(key), "=", revision), clientv3.Compare(clientv3.CreateRevision(dropped), "=", 0)).
			Then(clientv3.OpPut(key, string(value))).Commit()
		if err != nil || done.Succeeded {
			return t, err
		}
	}
}

// FollowContainers calls f for each container that was made or changed while the cluster ran, and again when it is changed, until
// ctx ends or f returns an error. It may call f with the same one more than once.
func (s *Store) FollowContainers(ctx context.Context, f func(cluster.Container) error) error {
	return s.follow(ctx, "containers", follower{
		restart: func() {},
		loaded:  func() {},
		gone:    func([]byte) error { return nil },
		put: func(kv *mvccpb.KeyValue) error {
			var t cluster.Container
			if err := decodeJSON(kv, &t); err != nil {
				return err
			}
			return f(t)
		},
	})
}

// Drain has a node lose its replicas, or ends that. It stays so until it is ended.
func (s *Store) Drain(ctx context.Context, node topology.NodeID, on bool) error {
	key := s.key("drains", uint64(node))
	var err error
	if on {
		_, err = s.client.Put(ctx, key, "{}")
	} else {
		_, err = s.client.Delete(ctx, key)
	}
	return err
}

// FollowDrains tells which nodes are to lose their replicas, until ctx ends. loaded is called when all that were to are told. The calls
// come from one goroutine.
func (s *Store) FollowDrains(ctx context.Context, loaded func(), f func(node topology.NodeID, on bool)) error {
	known := make(map[uint64]bool)
	var seen map[uint64]bool
	return s.follow(ctx, "drains", follower{
		restart: func() { seen = make(map[uint64]bool) },
		loaded: func() {
			for id := range known {
				if !seen[id] {
					delete(known, id)
					f(topology.NodeID(id), false)
				}
			}
			loaded()
		},
		gone: func(key []byte) error {
			id, err := number(key)
			if err == nil {
				delete(known, id)
				f(topology.NodeID(id), false)
			}
			return err
		},
		put: func(kv *mvccpb.KeyValue) error {
			id, err := number(kv.Key)
			if err == nil {
				known[id], seen[id] = true, true
				f(topology.NodeID(id), true)
			}
			return err
		},
	})
}

// Picture is what is in the store at a time.
type Picture struct {
	Nodes      []Node
	Draining   map[topology.NodeID]bool
	Containers []cluster.Container // that were made, or changed, while the cluster ran
	Dropped    []Dropped
	Groups     []*topology.Group
	Steps      []placement.Step // that are to be carried out
	Planner    topology.NodeID  // the node that plans; 0: none
}

// Picture reads what is in the store now.
func (s *Store) Picture(ctx context.Context) (p Picture, err error) {
	p.Draining = make(map[topology.NodeID]bool)
	for kind, take := range map[string]func(kv *mvccpb.KeyValue) error{
		"nodes": func(kv *mvccpb.KeyValue) error {
			var n Node
			failed := decodeJSON(kv, &n)
			p.Nodes = append(p.Nodes, n)
			return failed
		},
		"drains": func(kv *mvccpb.KeyValue) error {
			id, failed := number(kv.Key)
			p.Draining[topology.NodeID(id)] = true
			return failed
		},
		"containers": func(kv *mvccpb.KeyValue) error {
			var t cluster.Container
			failed := decodeJSON(kv, &t)
			p.Containers = append(p.Containers, t)
			return failed
		},
		"drops": func(kv *mvccpb.KeyValue) error {
			return showDropped(kv, func(d Dropped) error {
				p.Dropped = append(p.Dropped, d)
				return nil
			})
		},
		"groups": func(kv *mvccpb.KeyValue) error {
			g, failed := decodeGroup(kv)
			p.Groups = append(p.Groups, g)
			return failed
		},
		"steps": func(kv *mvccpb.KeyValue) error {
			return showStep(kv, func(s placement.Step) { p.Steps = append(p.Steps, s) })
		},
	} {
		if _, err = s.list(ctx, kind, take); err != nil {
			return p, err
		}
	}
	got, err := s.client.Get(ctx, s.prefix+"planner/", clientv3.WithFirstCreate()...)
	if err == nil && len(got.Kvs) > 0 {
		id, bad := strconv.ParseUint(string(got.Kvs[0].Value), 10, 64)
		p.Planner, err = topology.NodeID(id), bad
	}
	return p, err
}
