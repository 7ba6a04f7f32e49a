package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/cleavestore/cleave/internal/copypass"
	"github.com/cleavestore/cleave/internal/exec"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/jobtrace"
	"github.com/cleavestore/cleave/internal/jsondoc"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/internal/locks"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/pins"
	"github.com/cleavestore/cleave/internal/writebatch"
)

// A copy is made in passes (internal/copypass): each makes the destination equal to a
// snapshot of the source. The last pass is made while the source takes no writes.
// docs/crash-safety-of-copies.md has the commit points.

// CopyProgress tells how far a copy has come.
type CopyProgress struct {
	Pass    int   // 1: all items; further passes: what was written meanwhile
	Items   int64 // of the source when the first pass began, at most; 0 from the second pass on
	Looked  int64 // changes that the pass has gone over; in the first pass, items
	Copied  int64 // documents written since CopyTo was called
	Removed int64 // documents deleted again since CopyTo was called
}

// CopyJob copies a container. The job has done its work when little is missing: then
// Finish copies the rest and makes the copy take the place of its source. Until Finish or
// Cancel, versions that were overwritten or deleted in the source take space. After a
// cancel the container that is copied into stays as it is: CopyTo may go on with it. The
// job is safe for concurrent use; its calls wait for each other.
type CopyJob struct {
	job[CopyProgress]
	src, dst *Container

	calls struct {
		lockorder.Mutex[locks.Copy]
		over bool // the destination is not written any more
	}
	passes copypass.Job[copySnapshot] // by who holds the lock; but a drop of either container calls Forget
	// unwatchCopy tells package cleavetest that the job was finished or cancelled.
	unwatchCopy func()
}

// CollisionError says that two items with one id, of different logical partitions, would
// become one under the new partition key. It comes as a *CollisionError, and matches ErrExists.
//
//	ID   string
//	Key  PartitionKey    // the new one
//	From [2]PartitionKey // the present ones
type CollisionError = copypass.CollisionError

// CopyTo copies the container's documents into a new container, for instance with another
// partition key, while the container is read and written. It returns the job that does
// so. Until CopyJob.Finish the copy can be read but not written (ErrCopying).
//
// If the job ends early, by an error, a cancel or a crash, another call with the same name,
// partition key and HashVersion goes on. DropContainer drops the unfinished copy instead. The
// container is not changed by either. CopyTo waits for splits, merges and moves of the container
// until ctx ends.
//
// Items keep the time at which they expire; etag, sequence and time of writing are new.
// Documents without a value at a path of the new key have the undefined key. Both
// containers must hold JSON. dst must have a DefaultTTL if the container has one. dst
// must not have unique keys or be replicated, and neither may have random suffixes.
// Otherwise the error is ErrInvalid. Two items with one id that would get one key are a
// *CollisionError, with which the job ends. This is so too for one that has expired, as long
// as it may not be dropped. If dst refuses an item, for its size or key, it ends with that
// error. After such an error the item can be changed or deleted, and CopyTo called again.
//
// Errors: ErrExists if there is a container of this name that is not an unfinished copy
// of this one with this key, or if another job writes to it; ErrCopying and ErrCopied if
// the container itself is a copy or was copied, ErrReplicated if it is replicated; those
// of CreateContainer. Errors of the
// job: those of reads and writes.
func (c *Container) CopyTo(ctx context.Context, dst string, def ContainerDef) (*CopyJob, error) {
	call, err := c.enterWriting(ctx, fromCaller)
	if err != nil {
		return nil, err
	}
	defer call.Leave()
	switch {
	case c.def.Kind != JSON || def.Kind != JSON:
		return nil, invalidf("CopyTo: a container that is opaque has no other key")
	case len(def.UniqueKeys) > 0:
		return nil, invalidf("CopyTo: a copy cannot have unique keys")
	case c.def.Synthetic.rule().Random() || def.Synthetic.rule().Random():
		return nil, invalidf("CopyTo: documents do not say what their random suffix is")
	case def.Replicated:
		return nil, invalidf("CopyTo: a replicated container takes entries only")
	}
	to, err := c.copyTarget(ctx, dst, def)
	if err != nil {
		return nil, err
	}
	p := &CopyJob{src: c, dst: to}
	p.passes.Store = copyEnds{p}
	p.passes.Tell = func(done copypass.Progress) { p.update(func(told *CopyProgress) { *told = CopyProgress(done) }) }
	p.begin(c.db, CopyProgress{})
	if !to.copier.CompareAndSwap(nil, p) {
		p.cancel()
		return nil, fmt.Errorf("container %q: a copy under way %w", dst, ErrExists)
	}
	if begin := c.db.watch("copy", c.name); begin != nil {
		p.unwatchCopy = begin()
	}
	if c.db.opts.manual {
		p.run()
	} else {
		c.db.work.Go(p.run)
	}
	return p, nil
}

// run copies until little is missing.
func (p *CopyJob) run() {
	job := jobtrace.Job{Name: "copy", Container: p.src.name}
	job.Start(p.ctx)
	defer job.End()
	p.calls.Lock()
	defer p.calls.Unlock()
	err := p.ctx.Err() // Cancel may have been faster
	if err == nil {
		err = p.copyLocked(p.ctx, p.passes.CatchUp)
	}
	if err != nil {
		p.leaveLocked()
	}
	_ = p.end(err)
}

// copyTarget returns the container to copy into, made if there is none.
func (c *Container) copyTarget(ctx context.Context, name string, def ContainerDef) (*Container, error) {
	if err := c.reshapeMu.Lock(ctx); err != nil { // SetDefaultTTL has it, and is refused once there is a copy
		return nil, err
	}
	defer c.reshapeMu.Unlock()
	if c.life.Default() != 0 && def.DefaultTTL == 0 {
		return nil, invalidf("CopyTo: items of container %q expire: the copy needs a DefaultTTL, or NoExpiry", c.name)
	}
	to, err := c.db.createContainer(ctx, name, def, c.id)
	if !errors.Is(err, ErrExists) {
		return to, err
	}
	exists := err
	if to, err = c.db.Container(name); err != nil {
		return nil, err
	}
	sameKey := jsondoc.SamePaths(to.def.PartitionKey, def.PartitionKey) && to.def.Synthetic.rule().Equal(def.Synthetic.rule())
	if to.copyOf.Load() != c.id || !sameKey || to.keys.Version1 != (def.HashVersion == 1) {
		return nil, exists
	}
	return to, nil
}

// Container returns the container that is copied into.
func (p *CopyJob) Container() *Container { return p.dst }

// Progress tells how far the job has come.
func (p *CopyJob) Progress() CopyProgress { return p.told() }

// CatchUp waits for the job, and copies what was written meanwhile, until little is
// missing. If Finish comes much later, call CatchUp now and then: it frees the space that
// overwritten and deleted versions take in the source.
func (p *CopyJob) CatchUp(ctx context.Context) error {
	if err := p.Wait(ctx); err != nil {
		return err
	}
	ctx, stop := p.within(ctx)
	defer stop()
	p.calls.Lock()
	defer p.calls.Unlock()
	return p.copyLocked(ctx, p.passes.CatchUp)
}

// within returns a context that also ends when the job is cancelled.
func (p *CopyJob) within(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(p.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// copyLocked makes passes, unless the job is over.
func (p *CopyJob) copyLocked(ctx context.Context, passes func(context.Context) error) error {
	if p.calls.over {
		return ErrClosed
	}
	return passes(ctx)
}

// Finish waits for the job, and makes the copy take the place of its source. It catches
// up, refuses further writes to the source with ErrCopied, copies the last writes, and
// lets the copy be written. When it returns nil all that is durable. The source can be
// read until it is dropped. After an error the source takes writes again and Finish may
// be called again; not after ErrCopied: another copy takes its place. After ErrOutcomeUnknown
// the store must be reopened to see whether the copy has taken its place.
func (p *CopyJob) Finish(ctx context.Context) (*Container, error) {
	if err := p.Wait(ctx); err != nil {
		return nil, err
	}
	ctx, stop := p.within(ctx)
	defer stop()
	p.calls.Lock()
	defer p.calls.Unlock()
	if err := p.copyLocked(ctx, p.passes.CatchUp); err != nil {
		return nil, err
	}
	if !p.src.copied.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("container %q: %w", p.src.name, ErrCopied)
	}
	if err := p.finishLocked(ctx); err != nil {
		p.src.copied.Store(false)
		return nil, err
	}
	p.leaveLocked()
	return p.dst, nil
}

// finishLocked copies what was written to the source, which takes no more
// writes, and commits.
func (p *CopyJob) finishLocked(ctx context.Context) error {
	// A writer that has not seen src.copied holds a commit lock until it has its
	// sequence. This snapshot takes each commit lock after it has its own sequence. So
	// the snapshot of the next pass has everything that such writers wrote.
	late, err := p.src.snapshot(ctx, pins.Copy)
	if err != nil {
		return err
	}
	late.Close()
	if err = p.copyLocked(ctx, p.passes.Pass); err != nil {
		return err
	}
	db := p.src.db
	call, err := db.enterWriting(ctx)
	if err != nil {
		return err
	}
	defer call.Leave()
	if err := db.uncertain(db.log.Sync()); err != nil {
		return err
	}
	db.storeManifest.Lock()
	defer db.storeManifest.Unlock()
	for _, c := range []*Container{p.src, p.dst} {
		if c.dropped.Load() {
			return c.gone()
		}
	}
	e := db.storeManifest.state.Edit()
	src, dst := *db.storeManifest.state.Container(p.src.id), *db.storeManifest.state.Container(p.dst.id)
	src.Copied, dst.CopyOf = true, 0
	e.Containers = append(e.Containers, src, dst)
	if err := db.storeManifestLocked(e); err != nil {
		return err
	}
	p.dst.copyOf.Store(0)
	return nil
}

// Cancel ends the job, soon, unless it has come to a point from which on it is carried
// through. Wait tells which it was. A job that has ended cannot be finished after it.
func (p *CopyJob) Cancel() {
	p.cancel() // ends a pass under way
	p.calls.Lock()
	defer p.calls.Unlock()
	p.leaveLocked()
}

// leaveLocked leaves the destination to other jobs.
func (p *CopyJob) leaveLocked() {
	if !p.calls.over {
		p.passes.Forget()
		p.calls.over = true
		p.dst.copier.Store(nil)
		if p.unwatchCopy != nil {
			p.unwatchCopy()
		}
	}
	p.cancel()
}

// endCopies closes the snapshots of copies from or to a container that was dropped.
func (db *DB) endCopies(dropped *Container) {
	forget := func(c *Container) {
		if p := c.copier.Load(); p != nil && (p.src == dropped || p.dst == dropped) {
			p.passes.Forget()
		}
	}
	forget(dropped)
	for c := range db.containers.Load().Values() {
		forget(c)
	}
}

// copyEnds implements copypass.Store.
type copyEnds struct{ p *CopyJob }

func (e copyEnds) Snapshot(ctx context.Context) (copySnapshot, error) {
	return e.p.src.copySnapshot(ctx)
}

func (e copyEnds) Items() (n int64) {
	for _, s := range e.p.src.Partitions() {
		n += s.Items
	}
	return n
}

func (e copyEnds) Open() (copypass.Source, copypass.Destination, func()) {
	purge := e.p.src.routing.Load().parts[0].removable().Expired // that of each, as they share their default
	src, dst := copySource{e.p.src, requests.Get().(*request), purge}, copyDestination{e.p.dst, requests.Get().(*request), requests.Get().(*request)}
	return src, dst, func() {
		src.r.release()
		dst.r.release()
		dst.into.release()
	}
}

func (e copyEnds) Dropped() bool { return e.p.src.dropped.Load() || e.p.dst.dropped.Load() }

// Changed yields versions that may have expired.
func (e copyEnds) Changed(ctx context.Context, to copySnapshot, since uint64) iter.Seq2[copypass.Item, error] {
	c := e.p.src
	return func(yield func(copypass.Item, error) bool) {
		o := exec.ScanOptions{Snapshot: cutOf(to.s), Borrow: true, Changes: true, Waits: true, Since: since, Unique: c.unique != nil}
		err := c.db.patiently(ctx, func() error {
			return exec.ScanAll(ctx, c.host(), &o, func(r *exec.Row) bool {
				if c.unique != nil && r.ID != "" && r.ID[0] == item.ClaimMark {
					return true // the tombstone of a claim, which is no item
				}
				return yield(copypass.Item{Key: r.Key, ID: r.ID, Body: r.Body, Expires: c.life.Expires(r.Modified, r.Expires)}, nil)
			})
		})
		if err != nil {
			yield(copypass.Item{}, err)
		}
	}
}

// copiedItem returns an item as a pass sees it.
func copiedItem(it *Item, err error) (copypass.Item, bool, error) {
	if errors.Is(err, ErrNotFound) {
		return copypass.Item{}, false, nil
	}
	out := copypass.Item{Key: it.Key, ID: it.ID, Body: it.Body}
	if !it.Expires.IsZero() {
		out.Expires = it.Expires.UnixMilli()
	}
	return out, err == nil, err
}

// copySnapshot implements copypass.Held. By it nothing has expired. While throughput is consumed
// it waits.
type copySnapshot struct{ s *Snapshot }

// copySnapshot takes a snapshot of the container for a copy.
func (c *Container) copySnapshot(ctx context.Context) (copySnapshot, error) {
	s, err := c.snapshot(ctx, pins.Copy)
	if err != nil {
		return copySnapshot{}, err
	}
	s.past = lifetime.Nothing
	return copySnapshot{s}, nil
}

func (v copySnapshot) Seq() uint64  { return v.s.seq }
func (v copySnapshot) Close() error { return v.s.Close() }

func (v copySnapshot) Read(ctx context.Context, key PartitionKey, id string, buf []byte) (copypass.Item, bool, error) {
	var it Item
	err := v.s.c.db.patiently(ctx, func() (err error) {
		it, err = v.s.read(ctx, key, id, mayWait, buf)
		return err
	})
	return copiedItem(&it, err)
}

func (v copySnapshot) Scan(ctx context.Context, key PartitionKey) iter.Seq2[copypass.Item, error] {
	return v.copiedItems(ctx, v.s.Scan(ctx, key, IDRange{}, &ScanOptions{waits: true}))
}

// copiedItems returns the items of a scan as a pass sees them.
func (v copySnapshot) copiedItems(ctx context.Context, scan iter.Seq2[Item, error]) iter.Seq2[copypass.Item, error] {
	return func(yield func(copypass.Item, error) bool) {
		err := v.s.c.db.patiently(ctx, func() error {
			for it, readErr := range scan {
				if errors.Is(readErr, ErrThrottled) {
					return readErr // nothing was read yet: a scan that has begun waits
				}
				if out, _, itemErr := copiedItem(&it, readErr); !yield(out, itemErr) {
					return nil
				}
			}
			return nil
		})
		if err != nil {
			yield(copypass.Item{}, err)
		}
	}
}

// copySource implements copypass.Source.
type copySource struct {
	c     *Container
	r     *request // scans documents
	purge int64    // what had expired by it may be dropped, milliseconds
}

func (s copySource) KeyOf(doc []byte) (PartitionKey, error) { return s.c.keyIn(s.r, doc) }

func (s copySource) Purgeable(expires int64) bool { return expires <= s.purge }

// copyDestination implements copypass.Destination. While throughput is consumed it waits.
type copyDestination struct {
	c       *Container
	r, into *request // scan documents; into is also the write
}

func (d copyDestination) All(ctx context.Context) iter.Seq2[copypass.Item, error] {
	return func(yield func(copypass.Item, error) bool) {
		v, err := d.c.copySnapshot(ctx)
		if err != nil {
			yield(copypass.Item{}, err)
			return
		}
		defer v.Close()
		v.copiedItems(ctx, v.s.ScanAll(ctx, &ScanOptions{waits: true}))(yield)
	}
}

func (d copyDestination) Read(ctx context.Context, key PartitionKey, id string, buf []byte) (copypass.Item, bool, error) {
	key = d.c.keys.Own(key)
	epk := key.EPK()
	it, err := d.c.readWaiting(ctx, key, &epk, id, view{at: lsm.MaxSequence, installEpoch: lsm.MaxSequence, past: lifetime.Nothing}, buf)
	return copiedItem(&it, err)
}

func (d copyDestination) KeyOf(doc []byte, take bool) (PartitionKey, error) {
	if take {
		return d.c.keyIn(d.into, doc)
	}
	return d.c.keyIn(d.r, doc)
}

func (d copyDestination) Put(ctx context.Context, expires int64) error {
	if d.into.ver.Expires = expires; expires == 0 && d.c.life.Follows() {
		d.into.ver.Expires = lifetime.Never
	}
	return d.write(ctx, d.into)
}

func (d copyDestination) Remove(ctx context.Context, key PartitionKey, id string) error {
	d.r.setTombstone(key.Encoded(), bytesOf(id))
	return d.write(ctx, d.r)
}

// write carries out a request.
func (d copyDestination) write(ctx context.Context, r *request) error {
	return d.c.db.patiently(ctx, func() error {
		call, err := d.c.enterWriting(ctx, fromCopy)
		if err != nil {
			return err
		}
		defer call.Leave()
		r.ttl, r.from, r.admission = 0, fromCopy, mayWait
		_, err = d.c.write(ctx, r, &WriteOptions{Durability: Buffered}, writebatch.Anything)
		return err
	})
}

// keyIn returns the partition key that a document has in the container. After it the
// request can be used to write the document there.
func (c *Container) keyIn(r *request, doc []byte) (PartitionKey, error) {
	if err := c.scan(r, doc, PartitionKey{}); err != nil {
		return PartitionKey{}, err
	}
	return keyOf(string(r.key.PK)), nil
}
