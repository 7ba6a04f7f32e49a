package meta

import (
	"context"
	"fmt"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/replica/topology"
)

// most is how many groups are changed at once: a transaction of etcd takes 128 conditions by default, and
// a group has one, and may have another one for its container.
const most = 60

// Publish makes descriptors visible, all at once. One that is not newer than what is there, or is of a
// container that was dropped, is left out, so a call may be repeated. Error: ErrTooMany above 60 groups.
func (s *Store) Publish(ctx context.Context, groups ...*topology.Group) error {
	if len(groups) > most {
		return fmt.Errorf("%d groups, at most %d: %w", len(groups), most, ErrTooMany)
	}
	for {
		var conditions []clientv3.Cmp
		var puts []clientv3.Op
		dropped := make(map[uint64]bool)
		for _, g := range groups {
			conditional := len(dropped)
			if gone, err := s.wasDropped(ctx, g.ID.Number(), dropped); err != nil {
				return err
			} else if gone {
				continue
			}
			if len(dropped) > conditional {
				conditions = append(conditions, s.notDropped(g.ID))
			}
			key := s.key("groups", uint64(g.ID))
			got, err := s.client.Get(ctx, key)
			if err != nil {
				return err
			}
			revision := int64(0)
			if len(got.Kvs) > 0 {
				known, err := decodeGroup(got.Kvs[0])
				if err != nil {
					return err
				}
				if known.Epoch >= g.Epoch {
					continue
				}
				revision = got.Kvs[0].ModRevision
			}
			conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(key), "=", revision))
			puts = append(puts, clientv3.OpPut(key, string(g.Append(nil))))
		}
		if len(puts) == 0 {
			return nil
		}
		done, err := s.client.Txn(ctx).If(conditions...).Then(puts...).Commit()
		if err != nil || done.Succeeded {
			return err
		}
	}
}

// Claim has a group be the only one that may ever split off group right. A call may be repeated. Errors:
// engine.ErrExists if group right is another one's, or is there and was not claimed; engine.ErrNoContainer if
// their container was dropped.
func (s *Store) Claim(ctx context.Context, left, right topology.GroupID) error {
	claim, group, value := s.key("claims", uint64(right)), s.key("groups", uint64(right)), strconv.FormatUint(uint64(left), 10)
	done, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(claim), "=", 0), clientv3.Compare(clientv3.CreateRevision(group), "=", 0), s.notDropped(right)).
		Then(clientv3.OpPut(claim, value)).
		Else(clientv3.OpGet(claim), clientv3.OpGet(s.key("drops", right.Number()), clientv3.WithCountOnly())).Commit()
	if err != nil || done.Succeeded {
		return err
	}
	made := done.Responses[0].GetResponseRange().Kvs
	switch {
	case done.Responses[1].GetResponseRange().Count > 0:
		return fmt.Errorf("the container of group %d: %w", right, engine.ErrNoContainer)
	case len(made) > 0 && string(made[0].Value) == value:
		return nil
	}
	return fmt.Errorf("group %d cannot be the right half of group %d: another one has or had the id: %w", right, left, engine.ErrExists)
}

func decodeGroup(kv *mvccpb.KeyValue) (*topology.Group, error) {
	g, err := topology.Decode(kv.Value)
	if err != nil {
		return nil, fmt.Errorf("key %s of the metadata store: %w", kv.Key, err)
	}
	if id, err := number(kv.Key); err != nil || uint64(g.ID) != id {
		return nil, fmt.Errorf("key %s of the metadata store has group %d: %w", kv.Key, g.ID, engine.ErrCorrupt)
	}
	return g, nil
}

// Drop removes a group from the map.
func (s *Store) Drop(ctx context.Context, id topology.GroupID) error {
	_, err := s.client.Delete(ctx, s.key("groups", uint64(id)))
	return err
}

// Follow keeps m as the store has it until ctx ends. loaded is called when m has all groups
// that were there; changed for each group that is news to m; both may be nil and are called
// from one goroutine. It returns the error of ctx, of etcd, or that of a damaged descriptor.
// The groups that m had stay when the store is away.
func (s *Store) Follow(ctx context.Context, m *topology.Map, loaded func(), changed func(*topology.Group)) error {
	var seen map[topology.GroupID]bool // since everything is shown again
	return s.follow(ctx, "groups", follower{
		restart: func() { seen = make(map[topology.GroupID]bool) },
		loaded: func() {
			for _, id := range m.IDs() { // what was dropped while nobody looked
				if !seen[id] {
					m.Drop(id)
				}
			}
			seen = nil
			if loaded != nil {
				loaded()
			}
		},
		put: func(kv *mvccpb.KeyValue) error {
			g, err := decodeGroup(kv)
			if err != nil {
				return err
			}
			if seen != nil {
				seen[g.ID] = true
			}
			if m.Update(g) && changed != nil {
				changed(g)
			}
			return nil
		},
		gone: func(key []byte) error {
			id, err := number(key)
			m.Drop(topology.GroupID(id))
			return err
		},
	})
}
