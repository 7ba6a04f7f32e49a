package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/atonce"
	"github.com/cleavestore/cleave/internal/cowmap"
	"github.com/cleavestore/cleave/internal/ctxlock"
	"github.com/cleavestore/cleave/internal/definition"
	"github.com/cleavestore/cleave/internal/epoch"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/feed"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/keylimits"
	"github.com/cleavestore/cleave/internal/keyscope"
	"github.com/cleavestore/cleave/internal/keysizes"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/loadstats"
	"github.com/cleavestore/cleave/internal/locks"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/physical"
	"github.com/cleavestore/cleave/internal/throughput"
	"github.com/cleavestore/cleave/internal/trigger"
	"github.com/cleavestore/cleave/internal/uniquekey"
	"github.com/cleavestore/cleave/partmap"
)

// Container is a set of items with one partition key definition. It is safe
// for concurrent use.
type Container struct {
	db         *DB
	id         uint32
	name       string
	def        ContainerDef
	keys       keyscope.Definition
	paths      *jsondoc.Paths
	unique     *uniquekey.Keys // nil: there are none
	scanLimits jsondoc.Limits
	triggers   trigger.Registry[*TriggerCall]
	throttled  atomic.Int64     // calls refused by physical partitions
	counted    map[string]int64 // for DB.totals: its counters when they were last collected
	throughput atomic.Uint64    // RU/s as a float64; changed with DB.storeManifest locked
	routing    atomic.Pointer[routing]
	dropped    atomic.Bool
	renewed    atomic.Pointer[Container]
	copyOf     atomic.Uint32           // id of the container that this is an unfinished copy of; 0: none
	copied     atomic.Bool             // a copy took its place
	copier     atomic.Pointer[CopyJob] // the job that writes to this container; nil: none
	family     physical.Family         // what the partitions have in common
	life       lifetime.Life           // the default time to live
	limits     keylimits.Limits
	keySizes   keysizes.Rules
	reindexing indexJobs
	loadStats  loadstats.Container
	feeds      feed.List
	reshapeMu  ctxlock.Mutex // held while partitions are replaced, before install
}

// routing maps an EPK to a physical partition. It is immutable.
type routing struct {
	table *partmap.Table
	parts []*partition // in table order
}

// ContainerInfo describes a container.
type ContainerInfo struct {
	Name       string       `json:"name"`
	Def        ContainerDef `json:"definition"`
	Partitions int          `json:"physical_partitions"`
}

// CreateContainer makes a container. It returns ErrExists if the name is
// taken, ErrInvalid if the definition is refused.
func (db *DB) CreateContainer(ctx context.Context, name string, def ContainerDef) (*Container, error) {
	return db.createContainer(ctx, name, def, 0)
}

// createContainer makes a container, as an unfinished copy of another one if
// copyOf is not 0.
func (db *DB) createContainer(ctx context.Context, name string, def ContainerDef, copyOf uint32) (c *Container, err error) {
	call, err := db.enterWriting(ctx)
	if err != nil {
		return nil, err
	}
	defer call.Leave()
	in := def.inner()
	if err = definition.CheckPatterns(in.Index); err == nil {
		err = in.Check(name)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if _, err = in.Compile(); err != nil {
		return nil, fmt.Errorf("%w: container %q: %w", ErrInvalid, name, err)
	}
	// creating is locked, so the next number of a container stays the same while directories are made.
	db.creating.Lock()
	defer db.creating.Unlock()
	if err = db.mayCreate(name); err != nil {
		return nil, err
	}
	in.MinPartitions = max(in.MinPartitions, throughput.Partitions(in.Throughput, in.Limits.PartitionThroughput))
	ranges := firstRanges(&in)
	db.storeManifest.Lock()
	m := in.Manifest(db.storeManifest.state.NextContainer, name)
	m.CopyOf = copyOf
	first := db.storeManifest.state.NextPartition
	db.storeManifest.state.NextPartition += uint32(len(ranges)) // used up, whatever follows
	db.storeManifest.Unlock()
	var entries []partmap.Entry
	var partitions []manifest.Partition
	for i, rng := range ranges {
		id := first + uint32(i)
		entries = append(entries, partmap.Entry{ID: PartitionID(id), Range: rng})
		partitions = append(partitions, manifest.Partition{
			ID: id, Container: m.ID,
			Min: slices.Clone(rng.Min.Bytes()), Max: slices.Clone(rng.Max.Bytes()),
		})
	}
	if c, err = db.newContainer(&m, entries); err != nil {
		return nil, err
	}
	// Commit point: the store manifest. If it does not name the new directories, they are
	// removed, at once, later, or by the next open. So their numbers are not given out again:
	// a removal that comes late would meet another partition.
	parts := c.routing.Load().parts
	defer func() {
		if err != nil {
			db.env.Discard(physicals(parts), errors.Is(err, ErrOutcomeUnknown))
		}
	}()
	if _, err := atonce.Do(ctx, db.opts.atOnce, len(parts), func(i int) error { return parts[i].MakeFirst() }); err != nil {
		return nil, err
	}
	if err := db.env.FS.SyncDir(manifest.PartitionsDir); err != nil {
		return nil, err
	}
	db.storeManifest.Lock()
	defer db.storeManifest.Unlock()
	e := db.storeManifest.state.Edit()
	e.NextContainer = m.ID + 1
	e.Containers = append(e.Containers, m)
	e.Partitions = partitions
	if err := db.storeManifestLocked(e); err != nil {
		return nil, err
	}
	c.divideLocked()
	db.containers.Store(db.containers.Load().With(name, c))
	return c, nil
}

// EnsureContainer returns the container of this name. If there is none, it makes one with
// def. An existing container must match def: its kind, partition key and unique keys must
// be those of def, and so must every other part of def that is not zero. MinPartitions is
// not compared: it says only how many partitions a new container has. If the container
// does not match, the error is a *DefinitionError, which matches ErrExists, and nothing
// is changed.
func (db *DB) EnsureContainer(ctx context.Context, name string, def ContainerDef) (*Container, error) {
	c, err := db.Container(name)
	if errors.Is(err, ErrNoContainer) {
		if c, err = db.CreateContainer(ctx, name, def); errors.Is(err, ErrExists) {
			c, err = db.Container(name) // another call made it meanwhile
		}
	}
	if err != nil {
		return nil, err
	}
	asked := def.inner()
	checked := asked
	if err := checked.Check(name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	asked.PartitionKey = checked.PartitionKey
	if err := c.compare(&asked); err != nil {
		return nil, err
	}
	return c, nil
}

// mayCreate returns an error if no container of this name can be made.
func (db *DB) mayCreate(name string) error {
	present := db.containers.Load()
	if present.Get(name) != nil {
		return fmt.Errorf("container %q: %w", name, ErrExists)
	}
	if present.Len() >= maxContainers {
		return invalidf("the store has %d containers, the most possible", present.Len())
	}
	return nil
}

// newContainer builds a container from its manifest, without files.
func (db *DB) newContainer(m *manifest.Container, entries []partmap.Entry) (*Container, error) {
	def, err := definition.FromManifest(m, len(entries))
	if errors.Is(err, ErrTooNew) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	compiled, err := def.Compile()
	if err != nil {
		return nil, fmt.Errorf("container %q: %w", m.Name, err)
	}
	table, err := partmap.NewTable(entries)
	if err != nil {
		return nil, fmt.Errorf("container %q: %w", m.Name, err)
	}
	c := &Container{
		db: db, id: m.ID, name: m.Name, def: outer(&def), keys: compiled.Keys, paths: compiled.Paths, unique: compiled.Unique,
		scanLimits: jsondoc.Limits{MaxBytes: int(def.Limits.ItemBytes)}, reshapeMu: ctxlock.New(locks.Reshape{}),
	}
	c.family.Levels, c.family.Compression, c.family.ChangeFloor = c.keys.Levels, def.Compression, c.changeFloor
	c.family.Version1 = c.keys.Version1
	c.family.Name, c.family.Replicated, c.family.KeepsChanges = m.Name, def.Replicated, def.ChangeRetention > 0
	c.family.Indexing.Store(compiled.Index)
	c.life.Init(def.MutableTTL, definition.Millis(def.DefaultTTL))
	c.keySizes = keysizes.Rules{Limits: &c.limits, Now: db.clockMillis, NearlyFull: c.tellNearlyFull}
	c.throughput.Store(math.Float64bits(def.Throughput))
	c.limitKeys(m)
	c.copyOf.Store(m.CopyOf)
	c.copied.Store(m.Copied)
	rt := &routing{table: table}
	for i := range table.Len() {
		rt.parts = append(rt.parts, c.newPartition(table.Entry(i)))
	}
	c.routing.Store(rt)
	return c, nil
}

// newPartition builds an empty partition, without files.
func (c *Container) newPartition(e partmap.Entry) *partition {
	p := &partition{db: c.db, c: c}
	p.Init(&c.db.env, &c.family, e)
	if p.Life = &c.life; c.def.Replicated && c.life.Follows() { // each partition goes by the entries of its own log
		p.Life = new(lifetime.Life)
		p.Life.Init(true, c.life.Default())
	}
	p.Purgeable = p.removable
	p.SplitQueued = func() bool { return p.queued.Load() != nil }
	p.sizes.Tree, p.sizes.Rules, p.sizes.Applying = &p.Tree, &c.keySizes, &p.Commit
	return p
}

// byName returns containers in the order of their names.
func byName(of *cowmap.Map[Container]) []*Container {
	return slices.SortedFunc(of.Values(), func(a, b *Container) int { return cmp.Compare(a.name, b.name) })
}

// Container returns a container by name, or ErrNoContainer.
func (db *DB) Container(name string) (*Container, error) {
	state := db.now()
	if state.draining.Load() && state == db.now() {
		return nil, ErrClosed
	}
	c := state.containers.Load().Get(name)
	if c == nil {
		return nil, fmt.Errorf("container %q: %w", jsondoc.Clip(name), ErrNoContainer)
	}
	if db.opts.ReadOnly {
		c = db.renewal.handle(c)
	}
	return c, nil
}

// Containers describes the containers of the store, by name.
func (db *DB) Containers() iter.Seq[ContainerInfo] {
	return func(yield func(ContainerInfo) bool) {
		for _, c := range byName(db.now().containers.Load()) {
			if !yield(c.info()) {
				return
			}
		}
	}
}

func (c *Container) info() ContainerInfo {
	return ContainerInfo{Name: c.name, Def: c.Def(), Partitions: len(c.routing.Load().parts)}
}

// DropContainer removes a container with all its items. When it returns nil the drop is
// durable. The space is freed as soon as running reads have ended. Later calls on handles
// of the container return ErrClosed.
func (db *DB) DropContainer(ctx context.Context, name string) error {
	call, err := db.enterWriting(ctx)
	if err != nil {
		return err
	}
	defer call.Leave()
	parts, err := db.unlist(ctx, name)
	if errors.Is(err, ErrDiskFull) && db.releaseReserve() {
		parts, err = db.unlist(ctx, name)
	}
	if err != nil {
		return err
	}
	db.retire(parts)
	return nil
}

// unlist removes a container from the store manifest, so that new calls do not find it.
// It returns the container's partitions, which take no more writes.
func (db *DB) unlist(ctx context.Context, name string) ([]*partition, error) {
	c := db.containers.Load().Get(name)
	if c == nil {
		return nil, fmt.Errorf("container %q: %w", jsondoc.Clip(name), ErrNoContainer)
	}
	if err := c.reshapeMu.Lock(ctx); err != nil {
		return nil, err
	}
	defer c.reshapeMu.Unlock()
	if err := db.unlistContainer(c); err != nil {
		return nil, err
	}
	c.endReindexing()
	parts := c.routing.Load().parts
	for _, p := range parts {
		p.Install.Lock()
		p.Commit.Lock()
		p.EndLocked()
		p.Commit.Unlock()
		p.Install.Unlock()
	}
	return parts, nil
}

func (db *DB) unlistContainer(c *Container) error {
	db.storeManifest.Lock()
	defer db.storeManifest.Unlock()
	if db.containers.Load().Get(c.name) != c {
		return fmt.Errorf("container %q: %w", c.name, ErrNoContainer)
	}
	// Commit point: the store manifest. Directories that it no longer names are removed
	// after it; the next open removes those that are left. Log records of the partitions
	// are skipped by their ids, which are never reused.
	e := db.storeManifest.state.Edit()
	e.DropContainers = []uint32{c.id}
	for m := range c.listedLocked() {
		e.DropPartitions = append(e.DropPartitions, m.ID)
	}
	if err := db.storeManifestLocked(e); err != nil {
		return err
	}
	db.containers.Store(db.containers.Load().Without(c.name))
	c.dropped.Store(true)
	c.family.Followers.Signal()
	db.endCopies(c)
	return nil
}

// Name returns the container's name.
func (c *Container) Name() string { return c.name }

// Def returns the container's definition, defaults filled in. The caller may change it.
func (c *Container) Def() ContainerDef {
	c = c.now()
	def := c.def
	def.PartitionKey, def.Synthetic = slices.Clone(def.PartitionKey), (*SyntheticKey)(def.Synthetic.rule().Clone())
	def.Index, def.UniqueKeys = IndexPolicy{}, uniquekey.Clone(def.UniqueKeys)
	if policy := c.family.Indexing.Load(); policy != nil {
		def.Index = IndexPolicy(policy.Policy())
	}
	def.Throughput, def.DefaultTTL = math.Float64frombits(c.throughput.Load()), definition.Duration(c.life.Default())
	l := c.limits.Rules().Default
	def.Limits.LogicalPartitionBytes, def.Limits.LogicalPartitionThroughput = l.Bytes, l.Throughput
	return def
}

// enter begins a call on the container.
func (c *Container) enter(ctx context.Context) (epoch.Guard, error) {
	return c.unlessDropped(c.db.enter(ctx))
}

// enterAgain is enter for a step of what is under way.
func (c *Container) enterAgain(ctx context.Context) (epoch.Guard, error) {
	return c.unlessDropped(c.db.enterAgain(ctx))
}

func (c *Container) unlessDropped(call epoch.Guard, err error) (epoch.Guard, error) {
	if err == nil && c.dropped.Load() {
		call.Leave()
		return epoch.Guard{}, c.gone()
	}
	return call, err
}

// gone returns the error of a dropped partition: lsm.ErrMoved if the call must be routed
// again, ErrClosed if the container was dropped.
func (p *partition) gone() error {
	if p.c.dropped.Load() {
		return p.c.gone()
	}
	return lsm.ErrMoved
}

// firstRanges returns the ranges of the physical partitions that a container begins with.
func firstRanges(d *definition.Def) []partmap.Range {
	if d.HashVersion == 1 {
		return partmap.Tile(partmap.EvenBoundariesV1(d.MinPartitions))
	}
	return partmap.Ranges(d.MinPartitions)
}

// gone is the error of calls on a dropped container.
func (c *Container) gone() error { return fmt.Errorf("container %q: %w", c.name, ErrClosed) }

// checkKey validates the key and id that a caller gave.
func (c *Container) checkKey(pk PartitionKey, id string) error {
	if err := c.checkPartitionKey(pk); err != nil {
		return err
	}
	return c.checkID(id)
}

func (c *Container) checkID(id string) error {
	if id == "" {
		return invalidf("empty id")
	}
	if len(id) > item.MaxID {
		return &LimitError{What: "id", Size: int64(len(id)), Limit: item.MaxID, Kind: ErrTooLarge}
	}
	return nil
}

// checkPartitionKey returns why no item of the container can have a key.
func (c *Container) checkPartitionKey(pk PartitionKey) error {
	if !pk.Valid() {
		return invalidf("partition key is the zero value, not a number, bad UTF-8 or too long")
	}
	if (pk.Version() == 1) != c.keys.Version1 {
		return invalidf("partition key %s: hashed by version %d, those of container %q are not", pk, pk.Version(), c.name)
	}
	if pk.Len() != c.levels() {
		return invalidf("partition key %s: number of levels %d, of container %q %d", pk, pk.Len(), c.name, c.levels())
	}
	return nil
}

// documentError makes the error for a refused document, with the sentinel that callers
// match.
func documentError(err error) error {
	kind := ErrInvalid
	if errors.Is(err, jsondoc.ErrTooLarge) {
		kind = ErrTooLarge
	}
	return fault.Of(kind, fmt.Errorf("document: %w", err))
}

// fillKey sets k to an item's sort key. epk holds the bytes that k borrows.
func fillKey(k *item.Key, epk *partmap.EPK, pk, id []byte) {
	*epk = partmap.HashEncoded(pk)
	*k = item.Key{Hash: epk.Head(), EPK: epk.Bytes(), PK: pk, ID: id}
}

// levels is the number of levels of the container's partition keys.
func (c *Container) levels() int { return c.keys.Levels }
