package meta

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/cleavestore/cleave/engine"
)

// Errors, for errors.Is. Errors of etcd's client are returned as they are.
var (
	// ErrName says that a name cannot be one of a cluster.
	ErrName = errors.New("name of a cluster is refused")
	// ErrNodeTaken says that another process has the node's id.
	ErrNodeTaken = errors.New("another process has the id of the node")
	// ErrNotPlanner says that another process plans now.
	ErrNotPlanner = errors.New("another process plans")
	// ErrHeld says that a group is changed by hand, or that the planner changes it now.
	ErrHeld = errors.New("the group is being changed")
	// ErrTooMany says that one call has more groups than etcd takes at once.
	ErrTooMany = errors.New("too many groups for one call")
)

// Store is what a cluster keeps in etcd. It is safe for concurrent use.
type Store struct {
	client *clientv3.Client
	prefix string
	first  uint64 // of the ids that NewIDs hands out
}

// New returns the store of a cluster. The client remains the caller's, who closes it after the
// last use of the store. Error: ErrName, if cluster is empty or has a slash.
func New(client *clientv3.Client, cluster string) (*Store, error) {
	if cluster == "" || strings.Contains(cluster, "/") {
		return nil, fmt.Errorf("%q must have a letter, and no slash: %w", cluster, ErrName)
	}
	return &Store{client: client, prefix: "/cleave/" + cluster + "/", first: 1}, nil
}

// BeginAt has a store that has handed out no ids yet begin with first, above those of a store that is
// lost. Call it before other methods.
func (s *Store) BeginAt(first uint64) { s.first = first }

// key returns the key of a numbered thing.
func (s *Store) key(kind string, id uint64) string {
	return fmt.Sprintf("%s%s/%020d", s.prefix, kind, id)
}

// under returns the prefix of all things of a kind.
func (s *Store) under(kind string) string { return s.prefix + kind + "/" }

// number returns the id that a key ends with.
func number(key []byte) (uint64, error) {
	text := string(key[strings.LastIndexByte(string(key), '/')+1:])
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("key %s of the metadata store does not end with a number: %w", key, engine.ErrCorrupt)
	}
	return id, nil
}

// decodeJSON decodes the value of a key.
func decodeJSON(kv *mvccpb.KeyValue, v any) error {
	if err := json.Unmarshal(kv.Value, v); err != nil {
		return fmt.Errorf("key %s of the metadata store: %w: %w", kv.Key, err, engine.ErrCorrupt)
	}
	return nil
}

// NewIDs hands out n ids of a kind, for instance "groups", which nobody has had or will get:
// first and the n-1 behind it. They begin at 1, or where BeginAt says.
func (s *Store) NewIDs(ctx context.Context, kind string, n uint64) (first uint64, err error) {
	key := s.prefix + "next/" + kind
	for {
		got, err := s.client.Get(ctx, key)
		if err != nil {
			return 0, err
		}
		first, revision := s.first, int64(0)
		if len(got.Kvs) > 0 {
			revision = got.Kvs[0].ModRevision
			if first, err = strconv.ParseUint(string(got.Kvs[0].Value), 10, 64); err != nil {
				return 0, fmt.Errorf("key %s of the metadata store is %q, not a number: %w", key, got.Kvs[0].Value, engine.ErrCorrupt)
			}
		}
		if first+n < first {
			return 0, fmt.Errorf("key %s of the metadata store: there are no %d ids from %d: %w", key, n, first, engine.ErrCorrupt)
		}
		done, err := s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
			Then(clientv3.OpPut(key, strconv.FormatUint(first+n, 10))).Commit()
		if err != nil {
			return 0, err // the ids may be lost, which does no harm
		}
		if done.Succeeded {
			return first, nil
		}
	}
}

// follow shows the values under a prefix, and then each change, in order. When etcd has
// dropped changes that were not shown yet, everything is shown again. It returns the first
// error of put, gone or etcd, or that of ctx.
func (s *Store) follow(ctx context.Context, kind string, f follower) error {
	for {
		f.restart()
		revision, err := s.list(ctx, kind, f.put)
		if err == nil {
			f.loaded()
			err = s.watch(ctx, kind, revision+1, f)
		}
		if !errors.Is(err, errCompacted) {
			return err
		}
	}
}

// follower is what follow calls, from one goroutine.
type follower struct {
	restart func() // before everything is shown, the first time or again
	loaded  func() // when everything is shown that was there
	put     func(kv *mvccpb.KeyValue) error
	gone    func(key []byte) error
}

// page is how many keys are read at once.
const page = 1000

// list shows all values of a kind as of one revision, which it returns.
func (s *Store) list(ctx context.Context, kind string, put func(kv *mvccpb.KeyValue) error) (revision int64, err error) {
	prefix := s.under(kind)
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	for {
		got, err := s.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithRev(revision))
		if errors.Is(err, rpctypes.ErrCompacted) {
			return 0, errCompacted
		}
		if err != nil {
			return 0, err
		}
		if revision == 0 {
			revision = got.Header.Revision
		}
		for _, kv := range got.Kvs {
			if err = put(kv); err != nil {
				return 0, err
			}
		}
		if !got.More {
			return revision, nil
		}
		from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
}

var errCompacted = errors.New("changes were dropped")

// watch shows the changes of a kind from a revision on.
func (s *Store) watch(ctx context.Context, kind string, from int64, f follower) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for w := range s.client.Watch(ctx, s.under(kind), clientv3.WithPrefix(), clientv3.WithRev(from)) {
		if w.CompactRevision != 0 {
			return errCompacted
		}
		if err := w.Err(); err != nil {
			return err
		}
		for _, e := range w.Events {
			var err error
			if e.Type == clientv3.EventTypeDelete {
				err = f.gone(e.Kv.Key)
			} else {
				err = f.put(e.Kv)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return errors.New("the client of the metadata store was closed")
}
