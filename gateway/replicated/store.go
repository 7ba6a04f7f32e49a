package replicated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/internal/testenv"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/replica/client"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/protocol"
)

// Config says what a Store is made of.
type Config struct {
	// Client is that of the cluster. It remains the caller's, who closes it after the Store.
	Client *client.Client
	// Wait bounds each call to the cluster: beyond it a request is answered 503, or 408 if it may have been carried out.
	// 0: ten seconds.
	Wait time.Duration
}

// Store is the containers of a cluster. It is a gateway.Store, and safe for concurrent use.
type Store struct {
	c     *client.Client
	wait  time.Duration
	model *engine.DB // without items: it knows keys, limits and plans

	catalogue *catalogue // once there is one

	mu     sync.Mutex
	ended  chan struct{} // closed when the store has failed
	failed error         // under mu
	looked time.Time     // under mu: when the nodes were last asked which groups they have
}

var (
	_ gateway.Store    = (*Store)(nil)
	_ gateway.Sessions = (*Store)(nil)
)

// ErrSuperseded says that another gateway has taken the catalogue of the cluster over.
var ErrSuperseded = errors.New("another gateway serves the cluster now")

// ErrCatalogue says that it is not known whether a change of the catalogue was carried out. The next
// gateway finds that out when it starts.
var ErrCatalogue = errors.New("outcome of a change of the catalogue is not known")

const (
	defaultWait = 10 * time.Second
	// retryAfter is when a client may try again that has found no leader.
	retryAfter  = 100 * time.Millisecond
	modelMemory = 16 << 20
)

// Open returns a store.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s := &Store{c: cfg.Client, wait: cmp.Or(cfg.Wait, defaultWait), ended: make(chan struct{})}
	files := vfs.NewMem()
	o := engine.Options{MemoryBudget: modelMemory}
	testenv.Put(&o, &testenv.Env{
		FS: func() vfs.FS { return files }, Clock: time.Now, Steady: func() time.Duration { return time.Since(begun) },
		Opened: func(testenv.Store) func() { return func() {} },
		Watch:  func(testenv.Store, string) func() func() { return nil },
	})
	var err error
	s.model, err = engine.Open(ctx, "model", &o)
	return s, err
}

var begun = time.Now()

// Close ends the store. Call it when no request is under way any more.
func (s *Store) Close() error { return s.model.Close() }

// Ended returns a channel that is closed when the store cannot go on, and Err says why.
func (s *Store) Ended() <-chan struct{} { return s.ended }

// Err returns ErrSuperseded or ErrCatalogue if the store cannot go on, nil else.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// fail ends the store. It returns the error that has ended it.
func (s *Store) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
		close(s.ended)
	}
	return s.failed
}

// bound returns the context of a call to the cluster.
func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.wait)
}

// answer returns an error of the cluster as a gateway answers it: errors of the engine as they are.
func answer(ctx context.Context, err error) error {
	say := func(status int, retry time.Duration) error {
		return &gateway.Fault{Status: status, RetryAfter: retry, Message: err.Error()}
	}
	if group, newest := ahead(ctx); group != 0 && (err == nil || errors.Is(err, engine.ErrNotFound)) {
		return &gateway.Fault{Status: http.StatusNotFound, SubStatus: sessionAhead, Message: fmt.Sprintf("the session is ahead of group %d, whose newest entry is %d", group, newest)}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrUnknown), errors.Is(err, client.ErrResults):
		return say(http.StatusRequestTimeout, 0) // it may have been carried out
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil, errors.Is(err, client.ErrClosed):
		return say(http.StatusServiceUnavailable, retryAfter)
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, protocol.ErrChange):
		return say(http.StatusNotImplemented, 0)
	}
	return err
}

// lacks is the answer to what does not go over a cluster.
func lacks(format string, args ...any) error {
	return &gateway.Fault{Status: http.StatusNotImplemented, Message: "over a cluster of replicas: " + fmt.Sprintf(format, args...)}
}

// Container implements gateway.Store. That there is no such container it says only if the cluster says so: a gateway that starts
// forgets the containers that are not there. The default time to live cannot be changed here, so one that has another is not
// that of the gateway either.
func (s *Store) Container(ctx context.Context, name string, def engine.ContainerDef) (gateway.Items, error) {
	within, cancel := s.bound(ctx)
	defer cancel()
	if err := s.c.Lookup(within, name); errors.Is(err, engine.ErrNoContainer) && !s.c.MostLack(within, name) {
		return nil, unavailable(err)
	} else if err != nil {
		return nil, answer(ctx, err)
	}
	if len(def.PartitionKey) == 0 {
		return &items{s: s, name: name, ttl: new(atomic.Int64), ranges: &ranges{}}, nil // the caller only asks whether the container is there
	}
	t, err := s.c.Definition(within, name)
	switch {
	case errors.Is(err, group.ErrBusy), errors.Is(err, engine.ErrNoContainer):
		// The container has groups, and the nodes that answer have not heard of its definition.
		return nil, unavailable(err)
	case err != nil:
		return nil, answer(ctx, err)
	}
	if own := definition(name, &def); !jsondoc.SamePaths(t.PartitionKey, own.PartitionKey) || !slices.EqualFunc(t.UniqueKeys, own.UniqueKeys, jsondoc.SamePaths) || t.DefaultTTL != own.DefaultTTL && !t.MutableTTL { // another program has made it
		return nil, fmt.Errorf("container %q with key %v, unique keys %v and default_ttl %d, the one of the name has key %v, unique keys %v and default_ttl %d: %w",
			name, own.PartitionKey, own.UniqueKeys, own.DefaultTTL, t.PartitionKey, t.UniqueKeys, t.DefaultTTL, engine.ErrNoContainer)
	}
	return s.items(ctx, &t)
}

// items returns a container that the cluster has.
func (s *Store) items(ctx context.Context, t *cluster.Container) (*items, error) {
	it := &items{s: s, name: t.Name, ttl: new(atomic.Int64), ranges: &ranges{}}
	it.ttl.Store(int64(cluster.TTLOf(t.DefaultTTL)))
	var err error
	it.Container, err = s.model.EnsureContainer(ctx, t.Name, engine.ContainerDef{PartitionKey: t.PartitionKey})
	if err == nil {
		err = it.explainBy(ctx, t.Index)
	}
	return it, err
}

// definition returns the container of a cluster that a gateway makes with a definition.
func definition(name string, def *engine.ContainerDef) *cluster.Container {
	return &cluster.Container{
		Name: name, PartitionKey: def.PartitionKey, Partitions: max(1, def.MinPartitions), Index: def.Index, DefaultTTL: cluster.SecondsOf(def.DefaultTTL), MutableTTL: true, UniqueKeys: def.UniqueKeys,
	}
}

// supports returns an error for a definition that a cluster cannot have.
func supports(def *engine.ContainerDef) error {
	switch {
	case def.HashVersion == 1:
		return lacks("a partition key of version 1")
	case def.ChangeRetention != 0:
		return lacks("changeFeedPolicy")
	}
	return nil
}

// CreateContainer implements gateway.Store. The cluster has no throughput.
func (s *Store) CreateContainer(ctx context.Context, name string, def engine.ContainerDef) (gateway.Items, error) {
	if err := supports(&def); err != nil {
		return nil, err
	}
	within, cancel := s.bound(ctx)
	defer cancel()
	t := definition(name, &def)
	if err := s.c.CreateContainer(within, *t); err != nil {
		return nil, answer(ctx, err)
	}
	// The client takes "exists" for success after an answer was lost. The container may then be one that another program has made.
	if _, err := s.Container(ctx, name, def); errors.Is(err, engine.ErrNoContainer) {
		return nil, fmt.Errorf("%w: %v", engine.ErrExists, err)
	}
	return s.items(ctx, t)
}

// startPause is how long a gateway that starts leaves a cluster alone that cannot tell yet.
const startPause = 100 * time.Millisecond

// awaitContainer is Container that waits, until ctx ends, for a cluster that begins too: its nodes have not heard of the
// container, or do not answer yet.
func (s *Store) awaitContainer(ctx context.Context, name string, def engine.ContainerDef) error {
	for {
		_, err := s.Container(ctx, name, def)
		var fault *gateway.Fault
		if !errors.As(err, &fault) || fault.Status != http.StatusServiceUnavailable || pacing.Sleep(ctx, startPause) != nil {
			return err
		}
	}
}

// EnsureContainer implements gateway.Store: it takes the catalogue over from the gateway before. It waits, until ctx ends,
// for a cluster that begins too.
func (s *Store) EnsureContainer(ctx context.Context, name string, def engine.ContainerDef) (gateway.Items, error) {
	err := s.awaitContainer(ctx, name, def)
	if errors.Is(err, engine.ErrNoContainer) {
		_, err = s.CreateContainer(ctx, name, def)
	}
	if errors.Is(err, engine.ErrExists) { // another gateway has made it meanwhile
		err = s.awaitContainer(ctx, name, def)
	}
	if err != nil {
		return nil, err
	}
	it, err := s.items(ctx, &cluster.Container{Name: name, PartitionKey: def.PartitionKey})
	if err != nil {
		return nil, err
	}
	c, err := takeOver(ctx, it)
	if err == nil {
		s.catalogue = c
	}
	return c, err
}

// Watch looks whether another gateway has taken the catalogue over, until ctx ends or the store has ended. Call it
// when gateway.Over has returned.
func (s *Store) Watch(ctx context.Context) { s.catalogue.watch(ctx) }

// owns returns an error unless the catalogue is still that of this gateway. Each change of a container that comes before its
// record in the catalogue begins with it.
func (s *Store) owns(ctx context.Context) error {
	if s.catalogue == nil {
		return nil
	}
	_, err := s.catalogue.change(ctx)
	return err
}

// DropContainer implements gateway.Store.
func (s *Store) DropContainer(ctx context.Context, name string) error {
	if err := s.owns(ctx); err != nil {
		return err
	}
	within, cancel := s.bound(ctx)
	defer cancel()
	err := s.c.DropContainer(within, name)
	if err == nil || errors.Is(err, engine.ErrNoContainer) {
		if failed := s.model.DropContainer(ctx, name); failed != nil && !errors.Is(failed, engine.ErrNoContainer) {
			return failed
		}
	}
	return answer(ctx, err)
}

// LastSeq implements gateway.Store. The sequences of a cluster are in its session tokens.
func (s *Store) LastSeq() uint64 { return 0 }

// Splitting implements gateway.Store. A cluster splits by itself.
func (s *Store) Splitting(string) bool { return false }
