package meta

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/cleavestore/cleave/replica/topology"
)

// Hold is the right to change the replicas of one group by hand. While it lasts, the planner orders no
// step for the group. It is safe for concurrent use.
type Hold struct {
	session *concurrency.Session
	cancel  context.CancelFunc // of the session
}

// Hold takes a group out of the planner's hands, until Release, or until ttl, rounded up to seconds,
// after the process has died. epoch is that of the group as the caller knows it: a step that was
// planned for an earlier one is no hindrance, and is removed. Error: ErrHeld, if the group is held
// already, or a step is to be carried out first.
func (s *Store) Hold(ctx context.Context, group topology.GroupID, epoch uint64, ttl time.Duration) (*Hold, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx)) // as in Campaign
	stop := context.AfterFunc(ctx, cancel)
	session, err := concurrency.NewSession(s.client, concurrency.WithTTL(int((ttl+time.Second-1)/time.Second)), concurrency.WithContext(life))
	stop()
	if err != nil {
		cancel()
		return nil, errors.Join(err, context.Cause(ctx))
	}
	h := &Hold{session, cancel}
	if err = s.hold(ctx, group, epoch, session.Lease()); err != nil {
		last, end := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer end()
		_ = h.Release(last) // it ends with its lease
		return nil, err
	}
	return h, nil
}

func (s *Store) hold(ctx context.Context, group topology.GroupID, epoch uint64, lease clientv3.LeaseID) error {
	key, stepKey := s.key("holds", uint64(group)), s.key("steps", uint64(group))
	got, err := s.client.Get(ctx, stepKey)
	if err != nil {
		return err
	}
	revision := int64(0)
	for _, kv := range got.Kvs {
		var o step
		if err = decodeJSON(kv, &o); err != nil {
			return err
		}
		if o.Epoch >= epoch {
			return fmt.Errorf("group %d: the planner has ordered a step (%s): %w", group, o.Kind, ErrHeld)
		}
		revision = kv.ModRevision
	}
	done, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0), clientv3.Compare(clientv3.ModRevision(stepKey), "=", revision)).
		Then(clientv3.OpPut(key, "{}", clientv3.WithLease(lease)), clientv3.OpDelete(stepKey)).Commit()
	if err == nil && !done.Succeeded {
		err = fmt.Errorf("group %d: another command moves a replica, or a step was ordered just now: %w", group, ErrHeld)
	}
	return err
}

// Lost is closed some time after the hold has ended.
func (h *Hold) Lost() <-chan struct{} { return h.session.Done() }

// Release ends the hold at once. An error means that it ends with its lease.
func (h *Hold) Release(ctx context.Context) error {
	defer h.cancel()
	defer context.AfterFunc(ctx, h.cancel)()
	return h.session.Close()
}

// Holds returns the groups that are held.
func (s *Store) Holds(ctx context.Context) (groups []topology.GroupID, err error) {
	_, err = s.list(ctx, "holds", func(kv *mvccpb.KeyValue) error {
		id, wrong := number(kv.Key)
		groups = append(groups, topology.GroupID(id))
		return wrong
	})
	return groups, err
}
