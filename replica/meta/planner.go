package meta

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/cleavestore/cleave/replica/placement"
	"github.com/cleavestore/cleave/replica/topology"
)

// Planner is the right to plan: one process of the cluster has it. It is for one goroutine.
type Planner struct {
	s        *Store
	session  *concurrency.Session
	election *concurrency.Election
	cancel   context.CancelFunc // of the session
}

// Campaign waits until this process may plan. The right lasts until Resign, or until ttl,
// rounded up to seconds, after the process has died.
func (s *Store) Campaign(ctx context.Context, node topology.NodeID, ttl time.Duration) (*Planner, error) {
	// The session has a context of its own: it is to end at once if ctx ends, and not hang on a store
	// that does not answer.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	session, err := concurrency.NewSession(s.patient(ctx, life), concurrency.WithTTL(int((ttl+time.Second-1)/time.Second)), concurrency.WithContext(life))
	stop()
	if err != nil {
		cancel()
		return nil, errors.Join(err, context.Cause(ctx))
	}
	p := &Planner{s: s, session: session, cancel: cancel, election: concurrency.NewElection(session, s.prefix+"planner")}
	if err = p.election.Campaign(ctx, strconv.FormatUint(uint64(node), 10)); err != nil {
		last, end := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer end()
		if err2 := p.close(last); err2 != nil {
			err = fmt.Errorf("%w; and %w", err, err2)
		}
		return nil, err
	}
	return p, nil
}

// patient returns a client for a campaign. When ctx ends, the library withdraws, with the context of its
// client: that of this one ends then a second later, so that a store which does not answer holds nobody
// up. It also ends with life.
func (s *Store) patient(ctx, life context.Context) *clientv3.Client {
	own, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, end) })
	context.AfterFunc(life, end)
	c := clientv3.NewCtxClient(own)
	c.KV, c.Lease, c.Watcher = s.client.KV, s.client.Lease, s.client.Watcher
	return c
}

// close ends the session, at the latest when ctx ends.
func (p *Planner) close(ctx context.Context) error {
	defer p.cancel()
	defer context.AfterFunc(ctx, p.cancel)()
	return p.session.Close()
}

// Lost is closed some time after the right is lost. No step is written from the loss on.
func (p *Planner) Lost() <-chan struct{} { return p.session.Done() }

// Resign gives the right back.
func (p *Planner) Resign(ctx context.Context) error {
	if err := p.election.Resign(ctx); err != nil {
		return errors.Join(err, p.close(ctx))
	}
	return p.close(ctx)
}

// step is a step as it is stored.
type step struct {
	Kind    string           `json:"kind"`
	Group   topology.GroupID `json:"group"`
	Epoch   uint64           `json:"epoch"`
	Node    topology.NodeID  `json:"node,omitempty"`
	Replica uint64           `json:"replica,omitempty"`
}

// Order writes steps, each in the place of an earlier one of its group. Errors: ErrNotPlanner,
// ErrHeld if one of the groups is held or of a container that was dropped, after both of which
// nothing is written; ErrTooMany above 60 steps.
func (p *Planner) Order(ctx context.Context, steps ...placement.Step) error {
	if len(steps) > most {
		return fmt.Errorf("%d steps, at most %d: %w", len(steps), most, ErrTooMany)
	}
	if p.election.Key() == "" {
		return ErrNotPlanner // it has resigned
	}
	conditions := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(p.election.Key()), "=", p.election.Rev())}
	var puts []clientv3.Op
	asked := make(map[uint64]bool)
	for _, s := range steps {
		if n := s.Group.Number(); !asked[n] {
			asked[n] = true
			conditions = append(conditions, p.s.notDropped(s.Group))
		}
		value, err := json.Marshal(step{s.Kind.String(), s.Group, s.Epoch, s.Node, s.Replica})
		if err != nil {
			return err
		}
		puts = append(puts, clientv3.OpPut(p.s.key("steps", uint64(s.Group)), string(value)))
		conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(p.s.key("holds", uint64(s.Group))), "=", 0))
	}
	done, err := p.s.client.Txn(ctx).If(conditions...).Then(puts...).Else(clientv3.OpGet(p.election.Key())).Commit()
	if err != nil || done.Succeeded {
		return err
	}
	if kvs := done.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 && kvs[0].CreateRevision == p.election.Rev() {
		return ErrHeld
	}
	return ErrNotPlanner
}

// Finish removes a step that is carried out or refused, unless another one has taken its
// place. The leader of the group calls it.
func (s *Store) Finish(ctx context.Context, done placement.Step) error {
	value, err := json.Marshal(step{done.Kind.String(), done.Group, done.Epoch, done.Node, done.Replica})
	if err != nil {
		return err
	}
	key := s.key("steps", uint64(done.Group))
	_, err = s.client.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", string(value))).Then(clientv3.OpDelete(key)).Commit()
	return err
}

// FollowSteps calls f for each step that is to be carried out, until ctx ends. It may call f
// with the same step more than once; the epoch tells one that was carried out.
func (s *Store) FollowSteps(ctx context.Context, f func(placement.Step)) error {
	return s.follow(ctx, "steps", follower{
		restart: func() {},
		loaded:  func() {},
		gone:    func([]byte) error { return nil },
		put: func(kv *mvccpb.KeyValue) error {
			return showStep(kv, f)
		},
	})
}

// Steps returns the steps that are ordered and not finished.
func (s *Store) Steps(ctx context.Context) (steps []placement.Step, err error) {
	_, err = s.list(ctx, "steps", func(kv *mvccpb.KeyValue) error {
		return showStep(kv, func(o placement.Step) { steps = append(steps, o) })
	})
	return steps, err
}

// showStep calls f with a step, unless it is of a kind of a newer program.
func showStep(kv *mvccpb.KeyValue, f func(placement.Step)) error {
	var v step
	if err := decodeJSON(kv, &v); err != nil {
		return err
	}
	for k := placement.Add; k <= placement.Reader; k++ {
		if k.String() == v.Kind {
			f(placement.Step{Kind: k, Group: v.Group, Epoch: v.Epoch, Node: v.Node, Replica: v.Replica})
		}
	}
	return nil
}
