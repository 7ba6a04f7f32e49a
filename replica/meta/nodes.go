package meta

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/cleavestore/cleave/replica/topology"
)

// Node is what a node tells of itself.
type Node struct {
	ID      topology.NodeID `json:"id"`
	Address string          `json:"address"` // host:port, for other nodes and for clients
	Zone    string          `json:"zone,omitempty"`
	Region  string          `json:"region,omitempty"`
	Bytes   int64           `json:"bytes"` // of the disk
	Load    float64         `json:"load"`  // RU/s that it carries
}

// Membership is the presence of a node in the cluster, until Leave or the end of its lease.
type Membership struct {
	s      *Store
	lease  clientv3.LeaseID
	key    string
	stop   context.CancelFunc
	done   chan struct{}
	update sync.Mutex // one Update at a time
}

// Join makes a node present. Its lease lasts for ttl, rounded up to seconds, after the last
// sign of life, which is sent by itself. As long as another process has the node's id, Join
// waits; if ctx ends first, the error matches ErrNodeTaken. So a node that was killed is back
// when its lease has ended.
func (s *Store) Join(ctx context.Context, n Node, ttl time.Duration) (*Membership, error) {
	value, err := json.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("node %d: %w", n.ID, err)
	}
	grant, err := s.client.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	if err != nil {
		return nil, err
	}
	m := &Membership{s: s, lease: grant.ID, key: s.key("nodes", uint64(n.ID)), done: make(chan struct{})}
	alive, stop := context.WithCancel(context.WithoutCancel(ctx))
	m.stop = stop
	beats, err := s.client.KeepAlive(alive, grant.ID)
	if err != nil {
		stop()
		return nil, err
	}
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		for range beats {
		}
		stop() // the lease was not renewed in time
	}()
	revision, err := m.take(ctx, n, string(value))
	taken := err == nil
	go func() {
		defer close(m.done)
		if taken { // a lease that is revoked takes the key with it
			for w := range s.client.Watch(alive, m.key, clientv3.WithRev(revision+1), clientv3.WithFilterPut()) {
				if w.Err() != nil || len(w.Events) > 0 {
					stop()
				}
			}
			stop()
		}
		<-beating
	}()
	if err != nil {
		return nil, fmt.Errorf("node %d: %w", n.ID, errors.Join(err, m.Leave(context.WithoutCancel(ctx))))
	}
	return m, nil
}

// take writes the node's key when nobody has it, and returns the revision of that.
func (m *Membership) take(ctx context.Context, n Node, value string) (int64, error) {
	for {
		done, err := m.s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(m.key), "=", 0)).
			Then(clientv3.OpPut(m.key, value, clientv3.WithLease(m.lease))).
			Else(clientv3.OpGet(m.key)).Commit()
		if err != nil {
			return 0, err
		}
		if done.Succeeded {
			return done.Header.Revision, nil
		}
		waiting, cancel := context.WithCancel(ctx)
		gone := false
		for w := range m.s.client.Watch(waiting, m.key, clientv3.WithRev(done.Header.Revision+1), clientv3.WithFilterPut()) {
			if err = w.Err(); err != nil || len(w.Events) > 0 {
				gone = len(w.Events) > 0
				break
			}
		}
		cancel()
		switch {
		case ctx.Err() != nil:
			return 0, fmt.Errorf("its key %s has not gone: %w: %w", m.key, ErrNodeTaken, context.Cause(ctx))
		case !gone && err != nil:
			return 0, err
		}
	}
}

// Lost is closed when the node's lease has ended, or Leave was called. The node should Join
// again.
func (m *Membership) Lost() <-chan struct{} { return m.done }

// Update changes what the node tells of itself; its id stays.
func (m *Membership) Update(ctx context.Context, n Node) error {
	value, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("node %d: %w", n.ID, err)
	}
	m.update.Lock()
	defer m.update.Unlock()
	done, err := m.s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.LeaseValue(m.key), "=", m.lease)).
		Then(clientv3.OpPut(m.key, string(value), clientv3.WithLease(m.lease))).Commit()
	if err == nil && !done.Succeeded {
		err = fmt.Errorf("node %d has lost its lease: %w", n.ID, ErrNodeTaken)
	}
	return err
}

// Leave ends the node's presence at once. An error means that it ends with the lease.
func (m *Membership) Leave(ctx context.Context) error {
	m.stop()
	<-m.done
	_, err := m.s.client.Revoke(ctx, m.lease)
	return err
}

// FollowNodes tells which nodes are there until ctx ends: there is called for each that has
// come or changed, gone for each that has left or whose lease has ended, loaded when all
// that were there are told. The calls come from one goroutine.
func (s *Store) FollowNodes(ctx context.Context, loaded func(), there func(Node), gone func(topology.NodeID)) error {
	known := make(map[topology.NodeID]bool)
	var seen map[topology.NodeID]bool
	return s.follow(ctx, "nodes", follower{
		restart: func() { seen = make(map[topology.NodeID]bool) },
		loaded: func() {
			for id := range known {
				if !seen[id] {
					delete(known, id)
					gone(id)
				}
			}
			loaded()
		},
		put: func(kv *mvccpb.KeyValue) error {
			var n Node
			if err := decodeJSON(kv, &n); err != nil {
				return err
			}
			known[n.ID], seen[n.ID] = true, true
			there(n)
			return nil
		},
		gone: func(key []byte) error {
			id, err := number(key)
			if err == nil {
				delete(known, topology.NodeID(id))
				gone(topology.NodeID(id))
			}
			return err
		},
	})
}
