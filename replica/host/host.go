package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/replica/cluster"
	"github.com/cleavestore/cleave/replica/command"
	"github.com/cleavestore/cleave/replica/group"
	"github.com/cleavestore/cleave/replica/raftlog"
	"github.com/cleavestore/cleave/replica/topology"
	"github.com/cleavestore/cleave/replica/transport"
)

// Errors, for errors.Is. Outcomes have those of package group.
var (
	// ErrClosed says that the host is closed.
	ErrClosed = errors.New("node is closed")
	// ErrNoGroup says that this node has no replica of the group.
	ErrNoGroup = errors.New("node has no replica of the group")
	// ErrTooMany says that the node has as many groups as it can.
	ErrTooMany = errors.New("node has too many groups")
	// ErrIdentity says that a directory is not that of this node.
	ErrIdentity = errors.New("directory is not that of the node")
)

const (
	// ReconnectTime is how long a node may be without connection before its groups get another
	// leader.
	ReconnectTime = 200 * time.Millisecond
	// StallTime is how long a sync of the Raft log may take before the node hands over.
	StallTime = time.Second
	// closeTime bounds how long Close waits for others to take over.
	closeTime = 2 * time.Second

	// heartbeatTicks divides electionTicks: at the same ticks Raft forgets which replicas have answered, and
	// asks all again.
	electionTicks, heartbeatTicks = 10, 5
	window                        = 20_000 // entries for which a group remembers a command
	defaultKeep                   = 10_000 // entries of the log, for followers that are behind
	keepBytes                     = 64 << 20
	catchUpBytes                  = 1 << 30  // of the log of a group, for followers that get a snapshot, or have got one
	keepFiles                     = 64       // of all logs together, of 64 MiB at most each
	truncateBytes                 = 64 << 20 // that all logs grow between truncations
	logMemory                     = 256 << 20
	maxLogMemory                  = 4 << 20 // of one group
)

// Network is what a host needs of package transport.
type Network interface {
	Send(node, group uint64, m *pb.Message) bool
	SendSnapshot(ctx context.Context, node, group, from, to uint64, write func(io.Writer) (*pb.Message, error)) error
	SetPeer(node uint64, address string)
	Peers() []transport.PeerStatus
	Close()
}

// Config says what a Host is made of.
type Config struct {
	Node    uint64
	Cluster *cluster.Cluster
	// Dir has the node's files: node.json, store, raft, incoming.
	Dir string
	// Network starts the connections, which give what comes to the handler.
	Network func(transport.Handler) (Network, error)
	// Client serves the connection of a client until it returns.
	Client func(ctx context.Context, h *Host, c *transport.Conn)
	// Engine are the options of the store. Nil: the defaults.
	Engine *engine.Options
	// Tick is the interval of the groups' clocks; an election takes 10 to 20 of them. 0: 100 ms.
	Tick time.Duration
	// Workers is how many goroutines serve the groups. 0: one for each processor, and one more.
	Workers int
	// SnapshotBytesPerSecond bounds what a snapshot sends. 0: 64 MiB.
	SnapshotBytesPerSecond int
	Logger                 *slog.Logger // nil: silent
	// Clock is what the time of commands is taken from. Nil: time.Now.
	Clock func() time.Time

	// Avoid says of which nodes leaders are not wanted, since they are to lose their replicas.
	// Nil: of none.
	Avoid func(node uint64) bool
	// Drop drops a container in the whole cluster, for a client: the one with a name and a number, or with number 0
	// whichever has the name. It returns when no acknowledged write to it can come any more. Nil: no container is
	// dropped.
	Drop func(ctx context.Context, name string, number uint64) error
	// Create makes a container in the whole cluster, for a client: of its name, key, partitions, index policy and default time to
	// live. It returns when the cluster has decided so. Nil: no container is made.
	Create func(ctx context.Context, t cluster.Container) error
	// Redefine changes the index policy of a container in the whole cluster, for a client. It returns when the
	// cluster has decided so. Nil: no definition changes.
	Redefine func(ctx context.Context, name string, index engine.IndexPolicy) error
	// Retime is Redefine for the default time to live, in seconds.
	Retime func(ctx context.Context, name string, seconds int64) error
	// Claim has a group be the only one that may ever split off group right, durably. It is called before a split is proposed.
	// An error refuses the split. Nil: callers of Split see to it that two groups do not split off the same one.
	Claim func(ctx context.Context, left, right uint64) error
	// Changed is called when what this node knows of a group has changed: the range, the members,
	// or who leads. It must not wait. Nil: nobody wants to know.
	Changed func(group uint64)

	// fs replaces, in tests, the file system of all but the store.
	fs vfs.FS
	// truncateBytes lowers, in tests, by how much logs grow between truncations, and the others what they keep for followers
	// that are behind.
	truncateBytes uint64
	keepEntries   uint64
	keepBytes     int64
	keepFiles     uint64
}

// Host runs the replicas of a node. Its methods are safe for concurrent use.
type Host struct {
	cfg Config
	fs  vfs.FS
	db  *engine.DB
	log *raftlog.Store

	described atomic.Pointer[cluster.Cluster]
	dropped   atomic.Pointer[drops]
	dropping  sync.Mutex // held while a container is dropped

	net      Network
	replicas replicas
	joining  sync.Mutex      // held while a replica or a container is made that was not here
	splits   sync.Map        // right groups that calls of Split are about to make
	adding   map[uint64]bool // numbers of containers of which AddContainer has not begun all groups yet; under joining
	joins    chan [3]uint64  // groups and replicas for which messages have come, and who has sent them
	queue    chan *replica
	sync     syncer
	late     late
	ctx      context.Context
	cancel   context.CancelFunc
	tasks    sync.WaitGroup // goroutines that end when ctx does
	workers  sync.WaitGroup
	ready    chan struct{} // closed when net is set
	stop     chan struct{} // ends the workers
	closing  atomic.Bool
	failed   chan struct{} // closed when the node must not go on
	failure  atomic.Pointer[error]
	ticks    atomic.Int64
	began    time.Time

	peers struct {
		sync.Mutex
		since map[uint64]time.Time // when each node that is connected was connected
	}
	sending, receiving chan struct{} // one snapshot at a time
	spools             atomic.Uint64
}

// identity is what node.json has.
type identity struct {
	Format int    `json:"format"`
	Node   uint64 `json:"node"`
	// Started says that the node has had a Raft log.
	Started bool `json:"started"`
	// Incarnation is that of the cluster, Entering the one that the node is about to enter, and
	// Superseded a later one of which it has met a node.
	Incarnation uint64 `json:"incarnation,omitempty"`
	Entering    uint64 `json:"entering,omitempty"`
	Superseded  uint64 `json:"superseded,omitempty"`
}

const (
	identityName  = "node.json"
	identityTemp  = "node.json.tmp"
	logDir        = "raft"
	storeDir      = "store"
	incomingDir   = "incoming"
	identityBytes = 1 << 16
)

// Init makes the directory of a node that has never been started.
func Init(dir string, node uint64) error {
	fs, err := vfs.CreateRoot(dir)
	if err != nil {
		return err
	}
	defer closeFS(fs)
	return initOn(fs, node)
}

// NodeOf returns the node that a directory was made for. Error: ErrIdentity, if it was made
// for none.
func NodeOf(dir string) (uint64, error) {
	fs, err := vfs.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer closeFS(fs)
	b, err := vfs.ReadFile(fs, identityName, identityBytes)
	var id identity
	if err == nil {
		err = json.Unmarshal(b, &id)
	}
	if err != nil || id.Node == 0 {
		return 0, fmt.Errorf("%s: %w: no node has been made here: %w", fs.Path(identityName), ErrIdentity, err)
	}
	return id.Node, nil
}

func initOn(fs vfs.FS, node uint64) error {
	if _, err := vfs.ReadFile(fs, identityName, identityBytes); err == nil {
		return fmt.Errorf("%s: %w", fs.Path(identityName), fault.ErrExists)
	} else if !errors.Is(err, fault.ErrMissing) {
		return err
	}
	return writeIdentity(fs, identity{Format: 1, Node: node})
}

func writeIdentity(fs vfs.FS, id identity) error {
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return vfs.WriteFileAtomic(fs, identityTemp, identityName, append(b, '\n'))
}

func closeFS(fs vfs.FS) {
	if c, ok := fs.(io.Closer); ok {
		c.Close()
	}
}

// Open starts a node. Errors: ErrIdentity; ErrSuperseded; raftlog.ErrLost and group.ErrBehind, after which
// the node must not come back under its id; those of the store, of the log and of Network.
func Open(ctx context.Context, cfg Config) (_ *Host, err error) {
	if cfg.Tick == 0 {
		cfg.Tick = 100 * time.Millisecond
	}
	if cfg.Workers == 0 {
		cfg.Workers = runtime.GOMAXPROCS(0) + 1
	}
	if cfg.SnapshotBytesPerSecond == 0 {
		cfg.SnapshotBytesPerSecond = 64 << 20
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.keepEntries == 0 {
		cfg.keepEntries = defaultKeep
	}
	cfg.truncateBytes = cmp.Or(cfg.truncateBytes, truncateBytes)
	if cfg.keepBytes == 0 {
		cfg.keepBytes, cfg.keepFiles = keepBytes, keepFiles
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Host{
		cfg: cfg, fs: cfg.fs, ready: make(chan struct{}), stop: make(chan struct{}), failed: make(chan struct{}),
		sending: make(chan struct{}, 1), receiving: make(chan struct{}, 1), began: time.Now(),
	}
	h.peers.since = make(map[uint64]time.Time)
	h.adding = make(map[uint64]bool)
	h.joins = make(chan [3]uint64, 64)
	h.sync.init()
	h.late.wake = make(chan struct{}, 1)
	if h.fs == nil {
		if h.fs, err = vfs.CreateRoot(cfg.Dir); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			h.closeStores()
		}
	}()
	if err = h.openStores(ctx); err != nil {
		if errors.Is(err, raftlog.ErrLost) || errors.Is(err, group.ErrBehind) {
			err = fmt.Errorf("%w. Node %d may have promised what it does not know any more, so it must not come back: give the machine a new node id and an empty directory", err, cfg.Node)
		}
		return nil, err
	}
	h.queue = make(chan *replica, 2*maxReplicas)
	h.ctx, h.cancel = context.WithCancel(context.Background())
	// What comes before the workers run waits in the queue.
	if h.net, err = cfg.Network(h); err != nil {
		return nil, err
	}
	close(h.ready)
	for range cfg.Workers {
		h.workers.Go(func() { h.work(h.stop) })
	}
	h.tasks.Go(h.syncLoop)
	h.tasks.Go(h.lateLoop)
	h.tasks.Go(h.tickLoop)
	h.tasks.Go(h.janitor)
	h.tasks.Go(h.spareLoop)
	h.tasks.Go(h.joinLoop)
	return h, nil
}

// openStores opens the store, the log and the groups.
func (h *Host) openStores(ctx context.Context) error {
	id, err := h.identity()
	if errors.Is(err, fault.ErrMissing) {
		return fmt.Errorf("%s: %w %d: it was not made for a node, or its content is lost. After a loss a node needs a new id", h.fs.Path(identityName), ErrIdentity, h.cfg.Node)
	} else if err != nil {
		return err
	}
	if err = h.loadContainers(); err != nil {
		return err
	}
	d := h.description()
	h.log, err = raftlog.Open(ctx, h.fs, logDir, raftlog.Options{
		Fresh: !id.Started, MemoryBytes: maxLogMemory, AllMemoryBytes: logMemory,
	})
	if err != nil {
		return err
	}
	o := engine.Options{}
	if h.cfg.Engine != nil {
		o = *h.cfg.Engine
	}
	o.MaxPartitionBytes = -1
	if h.db, err = engine.Open(ctx, filepath.Join(h.cfg.Dir, storeDir), &o); err != nil {
		return err
	}
	if err = h.clearAllDropped(ctx); err != nil {
		return err
	}
	for i := range d.Containers {
		if err = h.ensure(ctx, &d.Containers[i]); err != nil {
			return err
		}
	}
	if err = h.clearIncoming(); err != nil {
		return err
	}
	if err = h.enter(ctx, &id); err != nil {
		return err
	}
	if err = h.createLogs(h.firsts(d)); err != nil {
		return err
	}
	if !id.Started {
		id.Started = true
		if err = writeIdentity(h.fs, id); err != nil {
			return err
		}
	}
	if err = h.openReplicas(ctx); err != nil {
		return err
	}
	for i := range d.Containers {
		if err = h.evictStrangers(ctx, d.Containers[i].Name); err != nil {
			return err
		}
	}
	return nil
}

// openReplicas opens the replicas whose logs are here.
func (h *Host) openReplicas(ctx context.Context) error {
	h.replicas.init()
	d := h.description()
	layouts := make(map[string]*group.Layout)
	for i := range d.Containers {
		name := d.Containers[i].Name
		c, err := h.db.Container(name)
		if err != nil {
			return err
		}
		if layouts[name], err = group.NewLayout(c); err != nil {
			return err
		}
	}
	first := make(map[uint64]cluster.Group)
	for _, g := range d.Groups() {
		first[g.ID] = g
	}
	var all []*replica
	for _, log := range h.log.Groups() {
		def, found := first[log.ID()]
		if !found {
			def = cluster.Group{ID: log.ID(), Container: d.ContainerOf(log.ID())}
		}
		if node := nodeOf(log.Replica()); node != h.cfg.Node {
			return fmt.Errorf("the log of group %d is that of a replica on node %d: %w %d", log.ID(), node, ErrIdentity, h.cfg.Node)
		}
		r, err := h.openReplica(ctx, def, layouts[def.Container])
		if errors.Is(err, raftlog.ErrRemoved) {
			continue // its removal was interrupted, and is complete now
		} else if err != nil {
			return err
		}
		all = append(all, r)
	}
	return h.replicas.add(all...)
}

// evictStrangers removes the ranges of a new container of which this node has no group: a
// partition to which no entry was ever applied is none of a group's.
func (h *Host) evictStrangers(ctx context.Context, container string) error {
	c, err := h.db.Container(container)
	if err != nil {
		return err
	}
	for _, p := range c.Partitions() {
		if p.Absent {
			continue
		}
		applied, failed := c.AppliedIndex(p.ID)
		if failed != nil {
			return failed
		}
		if applied > 0 {
			continue
		}
		if err = c.Evict(ctx, p.ID); err != nil {
			return err
		}
	}
	return nil
}

// mine returns those of some groups that this node has had a replica of from the beginning.
func (h *Host) mine(some []cluster.Group) (out []cluster.Group) {
	for _, g := range some {
		if slices.Contains(g.Replicas, h.cfg.Node) {
			out = append(out, g)
		}
	}
	return out
}

// nodeOf returns the node of a replica.
func nodeOf(replica uint64) uint64 { return uint64(topology.NodeOf(replica)) }

func (h *Host) clearIncoming() error {
	if err := vfs.MkdirSync(h.fs, incomingDir); err != nil {
		return err
	}
	names, err := h.fs.List(incomingDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := h.fs.Remove(path.Join(incomingDir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (h *Host) closeStores() error {
	var errs []error
	if h.log != nil {
		errs = append(errs, h.log.Close())
	}
	if h.db != nil {
		errs = append(errs, h.db.Close())
	}
	if h.fs != nil && h.cfg.fs == nil {
		closeFS(h.fs)
	}
	return errors.Join(errs...)
}

// Close hands leaderships over, for at most two seconds, and closes the node. What was
// proposed and not answered gets group.ErrUnknown. A snapshot that is being installed is given up.
func (h *Host) Close() error {
	if h.closing.Swap(true) {
		return ErrClosed
	}
	for end := time.Now().Add(closeTime); time.Now().Before(end) && h.leads() && h.failure.Load() == nil; {
		for _, r := range h.replicas.all() {
			r.do(func() { r.handOver(false) })
		}
		time.Sleep(h.cfg.Tick / 4)
	}
	h.cancel() // the network waits for an installation
	h.net.Close()
	h.halt()
	for _, r := range h.replicas.all() {
		r.close()
	}
	return h.closeStores()
}

// halt ends the goroutines.
func (h *Host) halt() {
	h.closing.Store(true)
	h.cancel()
	h.sync.close()
	h.tasks.Wait()
	close(h.stop)
	h.workers.Wait()
}

// leads reports whether a replica here leads, and another could, or has handed over and does not know
// yet who leads: its vote may be wanted.
func (h *Host) leads() bool {
	for _, r := range h.replicas.all() {
		if (r.status.leading.Load() || r.status.succeeded.Load()) && len(r.voters()) > 1 {
			return true
		}
	}
	return false
}

// Failed is closed when the node must not go on: the Raft log or the store has failed, so that nothing more can be
// made durable, or the node is superseded. Close the host; Failure says why. Unless it is ErrSuperseded, the node
// may be started again.
func (h *Host) Failed() <-chan struct{} { return h.failed }

// Failure returns why the node must not go on, nil if it may.
func (h *Host) Failure() error {
	if e := h.failure.Load(); e != nil {
		return *e
	}
	return nil
}

// DB returns the store. Its containers are read like any others, without a promise that a
// read is linearizable: see Confirm.
func (h *Host) DB() *engine.DB { return h.db }

// Cluster returns the description of the cluster, with the containers that AddContainer has added.
func (h *Host) Cluster() *cluster.Cluster { return h.description() }

// SetPeer tells of another node, the first time or again with another address.
func (h *Host) SetPeer(node uint64, address string) { h.net.SetPeer(node, address) }

// Peers describes the connections with the other nodes that this one was told of, by node.
func (h *Host) Peers() []transport.PeerStatus { return h.net.Peers() }

// Node returns the id of this node.
func (h *Host) Node() uint64 { return h.cfg.Node }

// Propose proposes a command to a group. done is called once with the outcome, by another
// goroutine or this one; it must not wait.
func (h *Host) Propose(id uint64, c *command.Command, done func(group.Outcome)) {
	r := h.replicas.get(id)
	if r == nil {
		done(group.Outcome{ID: c.ID, Err: ErrNoGroup})
		return
	}
	if !r.propose(c, done) {
		done(group.Outcome{ID: c.ID, Err: group.ErrBusy})
	}
}

// Confirm begins a linearizable read: when done is called with nil, the partition here has
// everything that was acknowledged before the call of Confirm. It must not wait. While there
// is no leader, done is not called, unless too many wait already: group.ErrBusy.
func (h *Host) Confirm(id uint64, done func(error)) {
	r := h.replicas.get(id)
	if r == nil {
		done(ErrNoGroup)
		return
	}
	if done = r.noting(done); !r.confirm(done) {
		done(group.ErrBusy)
	}
}

// Leader returns the node that leads a group, as far as this one knows, 0 if it knows none,
// and the newest entry that was applied here.
func (h *Host) Leader(id uint64) (node, applied uint64) {
	r := h.replicas.get(id)
	if r == nil {
		return 0, 0
	}
	return r.status.leader.Load(), r.status.applied.Load()
}

// Has reports whether this node has a replica of a group, and the group has a partition key of
// a container, as far as the replica has applied.
func (h *Host) Has(id uint64, container string, key engine.PartitionKey) bool {
	r := h.replicas.get(id)
	if r == nil || r.def.Container != container || !key.Valid() {
		return false
	}
	d := r.status.described.Load()
	epk := key.EPK()
	return d != nil && d.Range.Contains(&epk)
}

// HasRange is Has for a range of the key space, of which all is within that of the replica.
func (h *Host) HasRange(id uint64, container string, of partmap.Range) bool {
	r := h.replicas.get(id)
	if r == nil || r.def.Container != container || of.Min.Compare(&of.Max) >= 0 {
		return false
	}
	d := r.status.described.Load()
	return d != nil && d.Range.Min.Compare(&of.Min) <= 0 && of.Max.Compare(&d.Range.Max) <= 0
}

// Message implements transport.Handler. A message of a leader or a candidate for a replica of
// this node that it does not have makes an empty one: see package group.
func (h *Host) Message(from, id uint64, m *pb.Message) {
	if nodeOf(m.GetTo()) != h.cfg.Node || nodeOf(m.GetFrom()) != from {
		return
	}
	r := h.replicas.get(id)
	if r == nil && begins(m.GetType()) && !isNotice(m) && !isReady(m, pb.MsgHeartbeat) {
		select {
		case h.joins <- [3]uint64{id, m.GetTo(), m.GetFrom()}:
		default:
		}
		return // Raft repeats it
	}
	if r != nil && (r.log.Replica() == m.GetTo() || isQuestion(m)) {
		r.message(m)
	}
}

// Client implements transport.Handler.
func (h *Host) Client(ctx context.Context, c *transport.Conn) {
	<-h.ready
	if h.cfg.Client != nil {
		h.cfg.Client(ctx, h, c)
	}
}

// work serves groups until stop is closed.
func (h *Host) work(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case r := <-h.queue:
			r.run()
		}
	}
}

// tickLoop tells the groups that time passes, and watches the disk.
func (h *Host) tickLoop() {
	t := time.NewTicker(h.cfg.Tick)
	defer t.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-t.C:
		}
		n := h.ticks.Add(1)
		stalled := h.sync.stalled()
		for _, r := range h.replicas.all() {
			if n >= r.due.Load() {
				r.wake()
			}
		}
		if stalled && n%(electionTicks/2) == 0 {
			h.cfg.Logger.Warn("a sync of the Raft log takes long: leaderships are handed over", "node", h.cfg.Node)
			for _, r := range h.replicas.all() {
				r.do(func() { r.handOver(false) })
			}
		}
	}
}

// fail notes that nothing more can be made durable.
func (h *Host) fail(err error) { h.end("the Raft log or the store has failed", err) }

// end notes why the node must not go on.
func (h *Host) end(what string, err error) {
	if h.failure.CompareAndSwap(nil, &err) {
		h.cfg.Logger.Error(what, "node", h.cfg.Node, "err", err)
		close(h.failed)
	}
}
