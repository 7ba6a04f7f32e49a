package meta

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/topology"
)

// A drop has two moments. DropContainer decides it: from then on the container is in no list, its
// groups are not in the map and never come back there, and each node removes what it has when it
// hears of the drop. A node that does not hear of it may go on with the groups for as long as it and
// others that have not heard are a quorum. So the name stays taken until Release, which is for the
// one who knows that no such quorum is left: an acknowledged write to a container of the name is
// then one to its successor.

// Dropped is a container that was dropped.
type Dropped struct {
	Number uint64 `json:"number"`
	Name   string `json:"name"`
	// Voters is how many voters the groups had when the container was dropped, of the group that had
	// the fewest. 0: not known.
	Voters int `json:"voters,omitempty"`
	// Nodes are those on which the container was made, and those that had replicas of it when it was dropped.
	Nodes []topology.NodeID `json:"nodes,omitempty"`
	// Released says that no quorum has the container any more: its name may be that of another one.
	Released bool `json:"released,omitempty"`
}

func (s *Store) nameKey(name string) string { return s.under("names") + url.PathEscape(name) }

// numberOf returns the number of the container that has a name.
func numberOf(kv *mvccpb.KeyValue) (uint64, error) {
	n, err := strconv.ParseUint(string(kv.Value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("key %s of the metadata store is %q, not a number: %w", kv.Key, kv.Value, engine.ErrCorrupt)
	}
	return n, nil
}

// DropContainer drops a container for good, with all that the store has of its groups: the one with a name and a number,
// or with number 0 whichever has the name. described is
// the number that the description of the cluster gives the name, which counts if the store has none;
// 0 if there is none. The name stays taken until Release. For a container whose drop was decided before and is not released,
// it changes nothing and returns the same. Error: engine.ErrNoContainer.
func (s *Store) DropContainer(ctx context.Context, name string, number, described uint64) (d Dropped, err error) {
	for {
		got, err := s.client.Get(ctx, s.nameKey(name))
		if err != nil {
			return d, err
		}
		d = Dropped{Number: described, Name: name}
		revision := int64(0)
		if len(got.Kvs) > 0 {
			revision = got.Kvs[0].ModRevision
			if d.Number, err = numberOf(got.Kvs[0]); err != nil {
				return d, err
			}
		}
		if d.Number == 0 || number != 0 && number != d.Number {
			return d, fmt.Errorf("container %q: %w", name, engine.ErrNoContainer)
		}
		if d.Voters, d.Nodes, err = s.had(ctx, d.Number); err != nil {
			return d, err
		}
		value, err := json.Marshal(d)
		if err != nil {
			return d, err
		}
		key := s.key("drops", d.Number)
		done, err := s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(s.nameKey(name)), "=", revision), clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(
				clientv3.OpPut(s.nameKey(name), strconv.FormatUint(d.Number, 10)), clientv3.OpPut(key, string(value)),
				clientv3.OpDelete(s.key("containers", d.Number)),
				s.deleteOf("groups", d.Number), s.deleteOf("claims", d.Number), s.deleteOf("steps", d.Number),
			).
			Else(clientv3.OpGet(key)).Commit()
		if err != nil {
			return d, err
		}
		if done.Succeeded {
			return d, nil
		}
		before := done.Responses[0].GetResponseRange().Kvs
		if len(before) == 0 {
			continue // the name was given, or taken, meanwhile
		}
		if err = decodeJSON(before[0], &d); err != nil {
			return d, err
		}
		switch {
		case !d.Released:
			return d, nil
		case revision == 0:
			return d, fmt.Errorf("container %q: %w", name, engine.ErrNoContainer)
		}
	}
}

// deleteOf deletes all of a kind that the groups of a container have.
func (s *Store) deleteOf(kind string, number uint64) clientv3.Op {
	return clientv3.OpDelete(s.key(kind, number<<32), clientv3.WithRange(s.key(kind, (number+1)<<32)))
}

// had returns how many voters the groups of a container have, of the one that has the fewest, and on which nodes replicas are or were
// made.
func (s *Store) had(ctx context.Context, number uint64) (fewest int, nodes []topology.NodeID, err error) {
	made, err := s.client.Get(ctx, s.key("containers", number))
	if err != nil {
		return 0, nil, err
	}
	on := make(map[topology.NodeID]bool)
	for _, kv := range made.Kvs {
		var t cluster.Container
		if err = decodeJSON(kv, &t); err != nil {
			return 0, nil, err
		}
		for _, n := range t.Nodes {
			on[topology.NodeID(n)] = true
		}
	}
	from, end := s.key("groups", number<<32), s.key("groups", (number+1)<<32)
	for {
		got, err := s.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page))
		if err != nil {
			return 0, nil, err
		}
		for _, kv := range got.Kvs {
			g, err := decodeGroup(kv)
			if err != nil {
				return 0, nil, err
			}
			if n := g.Voters(); fewest == 0 || n < fewest {
				fewest = n
			}
			for _, r := range g.Replicas {
				on[r.Node] = true
			}
		}
		if !got.More {
			return fewest, slices.Sorted(maps.Keys(on)), nil
		}
		from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
}

// Release has the name of a container that was dropped be free for another one. The caller knows that
// no replica of it acknowledges writes any more. A call may be repeated.
func (s *Store) Release(ctx context.Context, d Dropped) error {
	d.Released = true
	value, err := json.Marshal(d)
	if err != nil {
		return err
	}
	_, err = s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.Value(s.nameKey(d.Name)), "=", strconv.FormatUint(d.Number, 10))).
		Then(clientv3.OpDelete(s.nameKey(d.Name)), clientv3.OpPut(s.key("drops", d.Number), string(value))).Commit()
	return err
}

// NoteDropped makes a drop known that a store of before, which is lost, had decided. One that is known
// stays as it is.
func (s *Store) NoteDropped(ctx context.Context, d Dropped) error {
	d.Released = true
	value, err := json.Marshal(d)
	if err != nil {
		return err
	}
	key := s.key("drops", d.Number)
	_, err = s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).Then(clientv3.OpPut(key, string(value))).Commit()
	return err
}

// Dropped returns the containers that were dropped.
func (s *Store) Dropped(ctx context.Context) (all []Dropped, err error) {
	_, err = s.list(ctx, "drops", func(kv *mvccpb.KeyValue) error {
		return showDropped(kv, func(d Dropped) error {
			all = append(all, d)
			return nil
		})
	})
	return all, err
}

// FollowDropped calls f for each container that was dropped, and again when it is released, until ctx
// ends or f returns an error.
func (s *Store) FollowDropped(ctx context.Context, f func(Dropped) error) error {
	return s.follow(ctx, "drops", follower{
		restart: func() {},
		loaded:  func() {},
		gone:    func([]byte) error { return nil },
		put:     func(kv *mvccpb.KeyValue) error { return showDropped(kv, f) },
	})
}

func showDropped(kv *mvccpb.KeyValue, f func(Dropped) error) error {
	var d Dropped
	if err := decodeJSON(kv, &d); err != nil {
		return err
	}
	return f(d)
}

// wasDropped reports whether the container with a number was dropped. known has what was asked before.
func (s *Store) wasDropped(ctx context.Context, number uint64, known map[uint64]bool) (bool, error) {
	if is, asked := known[number]; asked {
		return is, nil
	}
	got, err := s.client.Get(ctx, s.key("drops", number), clientv3.WithCountOnly())
	if err != nil {
		return false, err
	}
	known[number] = got.Count > 0
	return known[number], nil
}

// notDropped is the condition that the container of a group was not dropped.
func (s *Store) notDropped(g topology.GroupID) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(s.key("drops", g.Number())), "=", 0)
}
