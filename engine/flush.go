package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// A flush goes through these steps:
//
//  1. Wait until all writes in the oldest frozen memtable are published. In a
//     failed store they never are, and nothing is flushed.
//  2. Write the memtable to temporary files, sync them, open them again by name
//     and check every block.
//  3. Rename them, sync the directory.
//  4. Commit point: the partition's manifest names them and the flushed
//     sequence.
//  5. Readers get a version with the run in place of the memtable. When the last
//     reader of the old version has left, the memtable is released. Log files that
//     no partition needs any more are removed.
//
// A crash before 4 leaves files that no manifest names; the log still holds their
// contents. After 4 their contents no longer need the log.

// flushOldest turns the oldest frozen memtable of a partition into a run, unless
// the partition is dropped.
func (db *DB) flushOldest(ctx context.Context, p *partition) error {
	if err := db.writeOldest(ctx, p); err != errMoved {
		return err
	}
	return nil
}

// writeOldest is flushOldest, with errMoved if the partition is dropped.
func (db *DB) writeOldest(ctx context.Context, p *partition) error {
	v, release := p.hold()
	defer release()
	if len(v.frozen) == 0 || p.dropped.Load() {
		return nil
	}
	// Only a flush removes memtables, and a partition has one flush at a time: mem
	// stays without a guard.
	mem := v.frozen[len(v.frozen)-1]
	if db.log != nil {
		if err := db.await(mem.last, mem.synced); err != nil {
			return err
		}
	}
	if err := p.publish(mem.lastSeq); err != nil {
		return err
	}
	start := db.opts.clock()
	out := p.newOutput(ctx, int(mem.Versions()), v.runs, nil)
	defer out.abandon()
	if err := out.chooseDictionary(mem.Table, mem.RawBytes()); err != nil {
		return err
	}
	guess := p.newOverlap(v.runs)
	// During replay, carried records may still bring older versions.
	keep := p.retention(len(v.runs) == 0 && !db.replaying)
	var in, foreign int64
	var key item.Key // of the memtable, which outlives the loop
	for w := mem.Walk(maxSequence); w.Next(); {
		if (in+foreign)%yieldEvery == 0 {
			if err := out.yield(); err != nil {
				return err
			}
		}
		if mem.clip != nil && !mem.clip.holds(w.Key()) {
			foreign++
			continue
		}
		if k := w.Key(); in == 0 || item.Compare(k, &key) != 0 {
			key = *k
			keep.nextKey(k)
		}
		in++
		if !keep.wants(w.Version()) {
			continue
		}
		if err := out.add(w.Key(), w.Version()); err != nil {
			return err
		}
		guess.note(w.Key())
	}
	if in+foreign != mem.Versions() || in != out.items+keep.dropped {
		return fmt.Errorf("flush of partition %d: %d versions held, %d read, %d foreign, %d written, %d dropped", p.id, mem.Versions(), in, foreign, out.items, keep.dropped)
	}
	var flushed []*run
	if out.items > 0 {
		r, err := out.finish()
		if err != nil {
			return err
		}
		r.shadowed, r.keptAbove, r.heldBy = guess.estimate(), keep.floor(), keep.readers
		flushed = []*run{r}
		raw, stored := r.compression()
		p.c.dict.judge(out.dict, raw, stored)
		p.completeShadows(out)
	}
	p.install.Lock()
	defer p.install.Unlock()
	if p.dropped.Load() {
		return nil
	}
	runs := append(flushed, p.version.Load().runs...)
	upTo, inherits := p.flushed(&mem)
	at := mem.applied
	if db.replaying {
		upTo, inherits, p.install.behind = p.install.flushedSeq.Load(), p.inherited(), true
		at = p.install.applied
	}
	p.raiseChangeFloor(&keep)
	if err := p.storeFiles(runs, upTo, at, inherits); err != nil {
		return err
	}
	out.published = true
	p.swap(func(v version) version {
		v.frozen = v.frozen[: len(v.frozen)-1 : len(v.frozen)-1]
		v.setRuns(runs)
		return v
	})
	db.work.retire(func() {
		mem.letGo(db)
		db.work.releaseWaiters()
	})
	db.counters.flushes.Add(1)
	var bytes int64
	for _, r := range flushed {
		bytes += r.bytes()
	}
	db.counters.flushedBytes.Add(bytes)
	notify(db, db.opts.Events.Flushed, FlushEvent{
		Container: p.c.name, Partition: p.id, Items: out.items, RawBytes: mem.RawBytes(), Bytes: bytes, Duration: db.clockSince(start),
	})
	return nil
}

// storeFiles stores the manifest of the partition: its runs, the flushed sequence,
// the entry that belongs to that sequence, and the inherited streams. install is
// locked.
func (p *partition) storeFiles(runs []*run, flushedSeq uint64, at applied, inherits []manifest.Inherited) error {
	if p.lost != nil {
		return p.lost
	}
	if err := p.install.dir.Store(p.manifest(runs, flushedSeq, at, inherits)); err != nil {
		return p.db.uncertain(err)
	}
	p.install.applied = at
	p.install.flushedSeq.Store(flushedSeq)
	p.inherits.Store(&inherits)
	return nil
}

// manifest describes the partition with this set of runs.
func (p *partition) manifest(runs []*run, flushedSeq uint64, at applied, inherits []manifest.Inherited) *manifest.Files {
	m := manifest.Files{
		StoreID: p.db.id, Partition: uint32(p.id), FlushedSeq: flushedSeq, Applied: at.manifest(),
		Obsolete: p.obsoleteFiles(), Floor: p.floor(), Inherits: inherits, ChangeFloor: p.changeFloor.Load(),
	}
	for _, r := range runs {
		mr := manifest.Run{Shadowed: r.shadowed, Expiring: r.expiring.manifest()}
		for _, f := range r.files {
			mr.Files = append(mr.Files, f.ref)
		}
		m.Runs = append(m.Runs, mr)
	}
	return &m
}

// output writes items, in order, to as many files as they need.
type output struct {
	yielder
	ctx       context.Context // of the flush or merge
	p         *partition
	merges    bool // of a merge, which gives way to flushes
	expect    int
	numbers   []uint64
	dict      *segment.Dictionary
	codec     segment.Compression
	w         *segment.Writer
	temp      string
	number    uint64
	files     []*file
	named     []string    // final names given
	lo        partmap.EPK // lower bound of the file being written
	hi        partmap.EPK // upper bound of the last file
	last      item.Key    // of the last item added
	deleted   deletedBefore
	hidden    bool // the last version was deleted with its logical partition, in this file
	items     int64
	expiring  expiring
	paced     int64 // size of the present file when the merge was last paced
	rate      int64 // limit in bytes a second, beside that of all merges; 0: none
	index     outputIndex
	shadows   *shadowFinder // nil: shadowed versions are not looked for
	published bool
}

// newOutput returns an output of a flush or merge. older are the runs with older
// versions; inputs are the runs that a merge reads, none for a flush.
func (p *partition) newOutput(ctx context.Context, expect int, older, inputs []*run) *output {
	codec := p.c.def.Compression
	if codec == segment.Small {
		codec = segment.Fast // Small is for the oldest run: see merge
	}
	o := &output{ctx: ctx, p: p, expect: expect, codec: codec, lo: p.rng.Min, hi: p.rng.Max, merges: len(inputs) > 0}
	o.yielder.init()
	if o.index.policy = p.c.indexing.Load(); o.index.policy != nil {
		o.shadows = newShadowFinder(older, inputs)
	}
	return o
}

func (o *output) add(k *item.Key, v *item.Version) error {
	if err := o.begin(k); err != nil {
		return err
	}
	o.items++
	o.expiring.note(v)
	o.shadows.note(k, v.Seq)
	o.hidden = o.deleted.hides(k, v)
	if err := o.w.Add(k, v); err != nil {
		return err
	}
	return o.indexDocument(v)
}

// addFrom adds the current version of an input.
func (o *output) addFrom(in *runInput) error {
	if err := o.begin(in.walker.Key()); err != nil {
		return err
	}
	o.items++
	o.expiring.note(in.walker.Version())
	o.shadows.note(in.walker.Key(), in.walker.Version().Seq)
	o.hidden = o.deleted.hides(in.walker.Key(), in.walker.Version())
	reads, err := o.takesFrom(in)
	if err != nil {
		return err
	}
	if reads {
		if err := in.walker.Complete(); err != nil {
			return in.file.refused(err)
		}
	}
	if err := o.w.AddFrom(in.walker); errors.Is(err, segment.ErrItem) || errors.Is(err, segment.ErrOrder) {
		return in.file.refused(in.file.Corrupt(err)) // no writer accepts this item: the input is damaged
	} else if errors.Is(err, ErrCorrupt) {
		return in.file.refused(err)
	} else if err != nil {
		return err
	}
	return o.takeIndex(in, reads)
}

// begin makes sure that a file is open, and starts the next one at a boundary
// between logical partitions once the present one is large enough.
func (o *output) begin(k *item.Key) error {
	if o.w != nil && o.w.Size() >= o.p.db.opts.FileBytes && item.HashOf(k.EPK) != o.last.Hash {
		epk := partmap.HashEncoded(k.PK)
		if err := o.finishFile(epk); err != nil {
			return err
		}
		o.lo = epk
	}
	o.last.Hash = k.Hash
	if o.w != nil {
		return nil
	}
	o.number = o.p.newFileNumber()
	o.numbers = append(o.numbers, o.number)
	o.temp = path.Join(o.p.dir, manifest.SegmentName(o.number)+manifest.TempSuffix)
	f, err := o.p.db.fs.Create(o.temp)
	if err != nil {
		return err
	}
	o.w, err = segment.NewWriter(f, segment.WriterOptions{
		FileNumber: o.number, StoreID: o.p.db.id, Levels: o.p.c.levels(),
		Compression: o.codec, Dictionary: o.dict, EPK: appendEPK, Seed: o.p.db.seed, ExpectItems: o.expect,
	})
	o.beginIndex()
	return err
}

// finishFile completes the file being written, whose upper bound is hi.
func (o *output) finishFile(hi partmap.EPK) error {
	o.finishIndex()
	shadows := o.shadows.end()
	if shadows != nil {
		o.w.SetShadows(shadows)
	}
	_, err := o.w.Finish()
	o.w = nil
	o.failIndex(err)
	o.endIndex()
	if err != nil {
		return err
	}
	final := path.Join(o.p.dir, manifest.SegmentName(o.number))
	fsys := o.p.db.fs
	opts := o.p.db.readerOptions()
	check, err := segment.Open(fsys, o.temp, opts)
	if err != nil {
		return err
	}
	err = check.CopyTo(o.ctx, func([]byte) error { return o.yield() })
	check.Release()
	if err != nil {
		return err
	}
	o.named = append(o.named, final)
	if err = fsys.Rename(o.temp, final); err != nil {
		return err
	}
	o.temp, o.paced = "", 0
	opts.Warm = true
	reader, err := segment.Open(fsys, final, opts)
	if err != nil {
		return err
	}
	info, err := fsys.Stat(final)
	if err != nil {
		reader.Release()
		return err
	}
	f := &file{Reader: reader, name: final, min: o.lo, max: hi}
	f.ref = manifest.File{
		Number: o.number, Size: info.Size, FooterCRC: reader.FooterCRC(),
		Min: append([]byte{}, o.lo.Bytes()...), Max: append([]byte{}, hi.Bytes()...),
	}
	f.shadows.keep(shadows)
	f.Pin() // until abandon
	o.files = append(o.files, f)
	return nil
}

// finish completes the run and makes the names of its files durable.
func (o *output) finish() (*run, error) {
	if o.w != nil {
		if err := o.finishFile(o.hi); err != nil {
			return nil, err
		}
	}
	if err := o.p.db.fs.SyncDir(o.p.dir); err != nil {
		return nil, err
	}
	return &run{files: o.files, expiring: o.expiring}, nil
}

// abandon removes the files unless they were published. If it is unknown whether
// the manifest was stored, it removes nothing. The partition's floor stays at or
// below the numbers of files that remain, so that the next open removes them.
func (o *output) abandon() {
	o.yielder.close()
	for _, f := range o.files {
		f.Unpin()
	}
	if o.published {
		o.p.built(o.numbers)
		return
	}
	if o.w != nil {
		o.w.Abort()
	}
	o.endIndex()
	for _, f := range o.files {
		f.Release()
	}
	if o.p.install.dir.Failed() != nil {
		return
	}
	gone := true
	for _, name := range append(o.named, o.temp) {
		if name == "" {
			continue
		}
		if err := o.p.db.fs.Remove(name); err != nil && !errors.Is(err, ErrMissing) {
			gone = false
		}
	}
	if gone {
		o.p.built(o.numbers)
	}
}

// overlap estimates how many versions in older runs a new run overwrites, by
// looking up one key in 64.
type overlap struct {
	runs  []*run
	seen  int64
	found int64
	whole int64 // versions of deleted logical partitions: counted, not estimated
}

const overlapEvery = 64

func (p *partition) newOverlap(runs []*run) *overlap { return &overlap{runs: runs} }

func (o *overlap) note(k *item.Key) {
	if len(o.runs) > 0 && k.OfPartition() {
		o.noteWhole(k)
		return
	}
	if o.seen++; o.seen%overlapEvery != 1 || len(o.runs) == 0 {
		return
	}
	epk := partmap.HashEncoded(k.PK)
	l := k.Lookup()
	var v item.Version
	for _, r := range o.runs {
		f := r.find(&epk)
		if f == nil {
			continue
		}
		if ok, err := f.Head(l, maxSequence, &v); err == nil && ok {
			if v.IsDocument() {
				o.found++
			}
			return
		}
	}
}

// noteWhole counts the versions that a partition tombstone deletes.
func (o *overlap) noteWhole(k *item.Key) {
	epk := partmap.HashEncoded(k.PK)
	for _, r := range o.runs {
		if f := r.find(&epk); f != nil {
			if items, _, ok, err := f.PartitionStats(k); err == nil && ok {
				o.whole += int64(items)
			}
		}
	}
}

func (o *overlap) estimate() int64 { return o.found*overlapEvery + o.whole }

// Flush writes every memtable to files. When it returns nil, everything that
// was acknowledged before the call is in segment files.
func (db *DB) Flush(ctx context.Context) error {
	call, err := db.enterWriting(ctx)
	if err != nil {
		return err
	}
	defer call.Leave()
	if err := db.eachPartition(func(p *partition) error {
		p.mu.Lock()
		p.freezeLocked()
		p.mu.Unlock()
		return db.flushAll(ctx, p)
	}); err != nil {
		return err
	}
	db.work.reclaimIfManual()
	return db.releaseLog()
}

// flushAlone is flushOldest for a caller that does not hold the flushing lock of the
// partition.
func (db *DB) flushAlone(ctx context.Context, p *partition) error {
	if err := p.flushing.take(ctx); err != nil {
		return err
	}
	defer p.flushing.leave()
	return db.flushOldest(ctx, p)
}

// flushAll flushes what is frozen in a partition now, and not what writers freeze
// meanwhile.
func (db *DB) flushAll(ctx context.Context, p *partition) error {
	frozen := p.version.Load().frozen
	if len(frozen) == 0 {
		return nil
	}
	newest := frozen[0].Table
	waits := func(f frozenTable) bool { return f.Table == newest }
	for slices.ContainsFunc(p.version.Load().frozen, waits) && !p.dropped.Load() {
		if err := db.flushAlone(ctx, p); err != nil {
			return err
		}
		db.work.flushError.Store(nil)
	}
	if p.c.def.Replicated {
		return p.noteEntries()
	}
	return nil
}
