package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lockorder"
	"github.com/cleavestore/cleave/partmap"
)

// A copy is made in passes. Each takes a snapshot of the source and gives the
// destination what has changed since the snapshot before:
//
//   - The first pass does not know what the destination has. It removes what the
//     source does not have in this form, then writes what is missing.
//   - Each further one goes over the newest versions above the sequence of the
//     snapshot before, tombstones included: as long as that is held no merge
//     drops them. Read as of that snapshot, an item says where in the destination
//     it is; so it can be removed from there when it was deleted, or when its new
//     key has changed.
//
// After a pass the destination equals the snapshot, but for what has expired.
// An error in a pass leaves it between two: then the next one is a first one.
//
// That an item of the destination comes from a certain one of the source is
// known from its document, which has both keys. docs/crash-safety.md has the
// commit points.

// CopyOptions are the options of CopyTo. Nil means none.
type CopyOptions struct {
	// Progress, if not nil, is called every 1,000 items and after each pass.
	Progress func(CopyProgress)
}

// CopyProgress tells how far a copy has come.
type CopyProgress struct {
	Pass    int   // 1: all there was; further ones: what was written meanwhile
	Items   int64 // of the source when the pass began, at most; from the second pass on 0
	Looked  int64 // changes that the pass has gone over, or items, in the first
	Copied  int64 // documents written since CopyTo was called
	Removed int64 // documents deleted again since CopyTo was called
}

// Copy is a copy of a container that is under way. It is safe for concurrent
// use; its calls wait for each other.
type Copy struct {
	src, dst *Container
	progress func(CopyProgress)

	mu struct {
		lockorder.Mutex[copyLock]
		ended bool
		done  CopyProgress
	}
	// at is what the destination equals; nil: not known. The lock is held where it
	// gets another one, but a drop of either container lets go of it.
	at atomic.Pointer[Snapshot]
}

// CollisionError says that two items with one id, of different logical
// partitions, would become one under the new partition key. It matches
// ErrExists.
type CollisionError struct {
	ID   string
	Key  PartitionKey    // the new one
	From [2]PartitionKey // the present ones
}

// Error implements error.
func (e *CollisionError) Error() string {
	return fmt.Sprintf("item %q of partition key %s and that of %s: both would be in %s", e.ID, e.From[0], e.From[1], e.Key)
}

// Is matches ErrExists.
func (e *CollisionError) Is(target error) bool { return target == ErrExists }

// behind is how many changes a pass may have for the next one to be short.
const behind = 1000

// maxPasses bounds what a call makes in order to get there.
const maxPasses = 10

// CopyTo copies the container's documents into a new container, with another
// partition key for instance, while it is read and written. It returns when
// little is missing, to be fetched by Finish, which makes the copy take the
// container's place. Until then the copy can be read and not be written
// (ErrCopying).
//
// If CopyTo is left early, by an error, its context or a crash, another call
// with the same name and partition key goes on. DropContainer gives the copy up
// instead. The container is not changed by either.
//
// Items keep when they expire; etag, sequence and time of writing are new.
// Documents without a value at a path of the new key have the undefined key.
// What must be the same or ends with an error: dst has no DefaultTTL only if the
// container has none, both hold JSON, dst has no unique keys, neither has random suffixes or is
// replicated (ErrInvalid). Two items with one id
// that would get one key are a *CollisionError. An item that dst refuses, for
// its size or key, ends it too. After such an error the item can be changed or
// deleted, and CopyTo be called again.
//
// Errors: ErrExists if there is a container of this name that is not an
// unfinished copy of this one with this key, or if another Copy is at it;
// ErrCopying and ErrCopied if the container itself is a copy or was copied;
// those of CreateContainer, reads and writes.
func (c *Container) CopyTo(ctx context.Context, dst string, def ContainerDef, o *CopyOptions) (*Copy, error) {
	if err := c.accepts(false); err != nil {
		return nil, err
	}
	if c.def.Kind != JSON || def.Kind != JSON {
		return nil, invalidf("CopyTo: a container that is opaque has no other key")
	}
	if c.def.DefaultTTL != 0 && def.DefaultTTL == 0 {
		return nil, invalidf("CopyTo: items of container %q expire: the copy needs a DefaultTTL, or NoExpiry", c.name)
	}
	switch {
	case len(def.UniqueKeys) > 0:
		return nil, invalidf("CopyTo: a copy cannot have unique keys")
	case c.def.Synthetic.random() || def.Synthetic.random():
		return nil, invalidf("CopyTo: documents do not say what their random suffix is")
	case c.def.Replicated || def.Replicated:
		return nil, invalidf("CopyTo: a replicated container takes entries only")
	}
	to, err := c.copyTarget(ctx, dst, def)
	if err != nil {
		return nil, err
	}
	p := &Copy{src: c, dst: to, progress: func(CopyProgress) {}}
	if !to.copier.CompareAndSwap(nil, p) {
		return nil, fmt.Errorf("container %q: a copy under way %w", dst, ErrExists)
	}
	if o != nil && o.Progress != nil {
		p.progress = o.Progress
	}
	caughtUp := false
	defer func() {
		if !caughtUp { // be it by a panic of Progress
			_ = p.Close()
		}
	}()
	if err := p.CatchUp(ctx); err != nil {
		return nil, err
	}
	caughtUp = true
	return p, nil
}

// copyTarget returns the container to copy into, made if there is none.
func (c *Container) copyTarget(ctx context.Context, name string, def ContainerDef) (*Container, error) {
	to, err := c.db.createContainer(ctx, name, def, c.id)
	if !errors.Is(err, ErrExists) {
		return to, err
	}
	exists := err
	if to, err = c.db.Container(name); err != nil {
		return nil, err
	}
	if to.copyOf.Load() != c.id || !slices.Equal(to.def.PartitionKey, def.PartitionKey) || !to.def.Synthetic.equal(def.Synthetic) {
		return nil, exists
	}
	return to, nil
}

// accepts says why the container takes no writes, of a Copy or of others. A
// writer asks under its commit lock.
func (c *Container) accepts(copying bool) error {
	switch {
	case c.copied.Load():
		return fmt.Errorf("container %q: %w", c.name, ErrCopied)
	case copying == (c.copyOf.Load() != 0):
		return nil
	case copying:
		return fmt.Errorf("container %q is no copy: %w", c.name, ErrClosed)
	}
	return fmt.Errorf("container %q: %w", c.name, ErrCopying)
}

// Container returns the container that is copied into.
func (p *Copy) Container() *Container { return p.dst }

// CatchUp copies what was written since the last call, until little is
// missing. Who waits long before Finish calls it now and then: until it does,
// what was overwritten or deleted in the source takes space.
func (p *Copy) CatchUp(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.catchUpLocked(ctx)
}

func (p *Copy) catchUpLocked(ctx context.Context) error {
	for range maxPasses {
		if err := p.passLocked(ctx); err != nil {
			return err
		}
		if p.mu.done.Pass > 1 && p.mu.done.Looked <= behind {
			return nil
		}
	}
	return nil
}

// Finish makes the copy take the place of its source: it catches up, refuses
// writes to the source with ErrCopied from then on, copies the last of them, and
// gives the copy free to be written. When it returns nil that is durable. The
// source can be read until it is dropped. After an error it takes writes again
// and Finish may be called again; after ErrOutcomeUnknown the store must be
// reopened to see which it is.
func (p *Copy) Finish(ctx context.Context) (*Container, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.catchUpLocked(ctx); err != nil {
		return nil, err
	}
	finished := false
	p.src.copied.Store(true)
	defer func() {
		if !finished {
			p.src.copied.Store(false)
		}
	}()
	if err := p.finishLocked(ctx); err != nil {
		return nil, err
	}
	finished = true
	p.endLocked()
	return p.dst, nil
}

// finishLocked copies what was written to the source, which takes no more
// writes, and commits.
func (p *Copy) finishLocked(ctx context.Context) error {
	// A writer that has not seen that holds a commit lock until it has its
	// sequence. A snapshot takes each of these locks, after its sequence: so the
	// next one has what such writers wrote.
	late, err := p.src.snapshot(ctx, byCopy)
	if err != nil {
		return err
	}
	late.Close()
	if err = p.passLocked(ctx); err != nil {
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
	db.structure.Lock()
	defer db.structure.Unlock()
	for _, c := range []*Container{p.src, p.dst} {
		if c.dropped.Load() {
			return c.gone()
		}
	}
	e := db.structure.state.Edit()
	src, dst := *db.structure.state.Container(p.src.id), *db.structure.state.Container(p.dst.id)
	src.Copied, dst.CopyOf = true, 0
	e.Containers = append(e.Containers, src, dst)
	if err := db.storeManifestLocked(e); err != nil {
		return err
	}
	p.dst.copyOf.Store(0)
	return nil
}

// Close ends the Copy and leaves the container that it copies into as it is:
// CopyTo may go on with it. It may be called more than once, and after Finish.
func (p *Copy) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLocked()
	return nil
}

// Cancel ends the Copy and drops the container that it copies into, unless
// Finish has returned nil. The source is as it was.
func (p *Copy) Cancel(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.ended {
		return ErrClosed
	}
	p.endLocked()
	return p.dst.db.DropContainer(ctx, p.dst.name)
}

func (p *Copy) endLocked() {
	if !p.mu.ended {
		p.equals(nil)
		p.mu.ended = true
		p.dst.copier.Store(nil)
	}
}

// equals puts another snapshot in the place of the one that the destination
// equals. Of a container that was dropped none is kept.
func (p *Copy) equals(at *Snapshot) {
	if old := p.at.Swap(at); old != nil {
		old.Close()
	}
	if at != nil && (p.src.dropped.Load() || p.dst.dropped.Load()) {
		p.equals(nil)
	}
}

// endCopies lets go of what copies from or to a container hold. It was dropped.
func (db *DB) endCopies(dropped *Container) {
	forget := func(c *Container) {
		if p := c.copier.Load(); p != nil && (p.src == dropped || p.dst == dropped) {
			p.equals(nil)
		}
	}
	forget(dropped)
	for c := range db.containers.Load().all() {
		forget(c)
	}
}

// passLocked makes the destination equal to the source as it is now.
func (p *Copy) passLocked(ctx context.Context) error {
	if p.mu.ended {
		return ErrClosed
	}
	next, err := p.src.snapshot(ctx, byCopy)
	if err != nil {
		return err
	}
	passed := false
	defer func() {
		if !passed { // be it by a panic of Progress
			next.Close()
			p.equals(nil)
		}
	}()
	if err := p.passToLocked(ctx, next); err != nil {
		return err
	}
	passed = true
	p.equals(next)
	p.progress(p.mu.done)
	return nil
}

func (p *Copy) passToLocked(ctx context.Context, next *Snapshot) error {
	done := &p.mu.done
	done.Looked, done.Items = 0, 0
	w := &copier{src: p.src, dst: p.dst, at: p.at.Load(), next: next, done: done}
	w.from, w.into = requests.Get().(*request), requests.Get().(*request)
	defer w.from.release()
	defer w.into.release()
	var since uint64
	if w.at == nil {
		done.Pass = 1
		for _, s := range p.src.Partitions() {
			done.Items += s.Items
		}
		if err := w.weed(ctx); err != nil {
			return err
		}
	} else {
		done.Pass++
		since = w.at.seq
	}
	for change, err := range p.src.changedSince(ctx, next, since) {
		if err == nil {
			err = w.change(ctx, &change)
		}
		if err != nil {
			return err
		}
		if done.Looked++; done.Looked%1000 == 0 {
			p.progress(*done)
		}
	}
	return nil
}

// changedSince returns the newest versions up to a snapshot that are above
// since, in key-space order, for the body of the loop only. Those without a
// body are tombstones. Others may have expired.
func (c *Container) changedSince(ctx context.Context, s *Snapshot, since uint64) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		sc := scanners.Get().(*scanner)
		defer sc.release()
		sc.begin(ctx, c, s, &ScanOptions{Borrow: true})
		sc.changes, sc.since = true, since
		for rest, more := (partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}), true; more && !rest.Empty(); {
			rest, more = sc.run(rest, yield)
		}
	}
}

// copier makes one pass of a Copy.
type copier struct {
	src, dst   *Container
	at, next   *Snapshot // of the source; at may be nil
	done       *CopyProgress
	from, into *request // scan documents for their key in src and in dst
	buf        []byte
	former     []byte
}

// weed removes from the destination what the source does not have in this form.
func (w *copier) weed(ctx context.Context) error {
	for have, err := range w.dst.ScanAll(ctx, nil) {
		if err != nil {
			return err
		}
		origin, err := w.src.keyIn(w.from, have.Body)
		if err != nil {
			return err
		}
		want, err := w.next.ReadInto(ctx, origin, have.ID, w.former[:0])
		if err == nil {
			w.former = want.Body
			if sameContents(&want, &have) {
				continue
			}
		} else if !errors.Is(err, ErrNotFound) {
			return err
		}
		if err := w.remove(ctx, have.Key, have.ID); err != nil {
			return err
		}
	}
	return nil
}

// sameContents says whether an item is the copy of another one.
func sameContents(a, b *Item) bool {
	return bytes.Equal(a.Body, b.Body) && a.Expires.Equal(b.Expires)
}

// change brings an item of the source, which has changed since w.at, to the
// destination.
func (w *copier) change(ctx context.Context, now *Item) error {
	if now.ID == "" {
		return w.emptied(ctx, now.Key)
	}
	if w.src.unique != nil && now.ID[0] == claimMark {
		return nil // an item has given up a claim; that is no item
	}
	gone := len(now.Body) == 0 || !now.Expires.IsZero() && now.Expires.UnixMilli() <= w.src.nowMillis()
	var key PartitionKey
	var err error
	if !gone {
		// The request stands for the write from here on.
		if key, err = w.dst.keyIn(w.into, now.Body); err != nil {
			return w.refused(now, err)
		}
	}
	if w.at != nil {
		if err = w.leave(ctx, now, key, gone); err != nil {
			return err
		}
	}
	if gone {
		return nil
	}
	have, err := w.dst.ReadInto(ctx, key, now.ID, w.buf[:0])
	switch {
	case err == nil:
		w.buf = have.Body
		if sameContents(now, &have) {
			return nil
		}
		if err = w.collides(ctx, now, &have); err != nil {
			return err
		}
	case !errors.Is(err, ErrNotFound):
		return err
	}
	w.into.ver.Expires = 0
	if !now.Expires.IsZero() {
		w.into.ver.Expires = now.Expires.UnixMilli()
	}
	if err := w.write(ctx, w.into); err != nil {
		return w.refused(now, err)
	}
	w.done.Copied++
	return nil
}

// leave removes an item from the place that it had as of w.at, if that is
// another one now, or none.
func (w *copier) leave(ctx context.Context, now *Item, key PartitionKey, gone bool) error {
	former, err := w.at.ReadInto(ctx, now.Key, now.ID, w.former[:0])
	if errors.Is(err, ErrNotFound) {
		return nil // or it has expired, and so has its copy
	} else if err != nil {
		return err
	}
	w.former = former.Body
	old, err := w.dst.keyIn(w.from, former.Body)
	if err != nil || !gone && old == key {
		return err
	}
	have, err := w.dst.ReadInto(ctx, old, now.ID, w.buf[:0])
	if errors.Is(err, ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	w.buf = have.Body
	// Another item may have taken the place in this pass.
	if origin, err := w.src.keyIn(w.from, have.Body); err != nil || origin != now.Key {
		return err
	}
	return w.remove(ctx, old, now.ID)
}

// emptied removes what was deleted with its logical partition of the source.
func (w *copier) emptied(ctx context.Context, key PartitionKey) error {
	if w.at == nil {
		return nil // weed has done so
	}
	for former, err := range w.at.Scan(ctx, key, "", nil) {
		if err != nil {
			return err
		}
		_, err := w.next.Read(ctx, key, former.ID)
		if err == nil {
			continue // it was written again, and comes by itself
		} else if !errors.Is(err, ErrNotFound) {
			return err
		}
		if err := w.leave(ctx, &former, PartitionKey{}, true); err != nil {
			return err
		}
	}
	return nil
}

// collides says whether the item of the destination in whose place another one
// belongs comes from another item of the source that is still there.
func (w *copier) collides(ctx context.Context, now, have *Item) error {
	origin, err := w.src.keyIn(w.from, have.Body)
	if err != nil || origin == now.Key {
		return err
	}
	other, err := w.next.ReadInto(ctx, origin, have.ID, w.former[:0])
	if errors.Is(err, ErrNotFound) {
		return nil // and will be, or was, found deleted in this pass
	} else if err != nil {
		return err
	}
	w.former = other.Body
	key, err := w.dst.keyIn(w.from, other.Body)
	if err != nil || key != have.Key {
		return err
	}
	return &CollisionError{ID: now.ID, Key: have.Key, From: [2]PartitionKey{now.Key, origin}}
}

// remove deletes an item of the destination.
func (w *copier) remove(ctx context.Context, key PartitionKey, id string) error {
	r := requests.Get().(*request)
	defer r.release()
	if err := r.set(key.Encoded(), bytesOf(id), nil, item.Tombstone); err != nil {
		return err
	}
	if err := w.write(ctx, r); err != nil {
		return err
	}
	w.done.Removed++
	return nil
}

// write carries out a request in the destination.
func (w *copier) write(ctx context.Context, r *request) error {
	for {
		call, err := w.dst.enter(ctx)
		if err != nil {
			return err
		}
		r.ttl, r.copying = 0, true
		_, err = w.dst.write(ctx, r, &WriteOptions{Durability: Buffered}, anything)
		call.Leave()
		if !errors.Is(err, ErrThrottled) {
			return err
		}
		if err = w.dst.db.untilAdmitted(ctx, err); err != nil {
			return err
		}
	}
}

// refused names the item of the source that the destination does not take.
func (w *copier) refused(it *Item, err error) error {
	return fmt.Errorf("item %q of partition key %s: %w", it.ID, it.Key, err)
}

// keyIn returns the partition key that a document has in the container. The
// request is ready to write it there.
func (c *Container) keyIn(r *request, doc []byte) (PartitionKey, error) {
	if err := c.scan(r, doc, PartitionKey{}); err != nil {
		return PartitionKey{}, err
	}
	return keyOf(string(r.key.PK)), nil
}
