package engine

import (
	"context"
	"errors"
	"path"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// output writes items, in order, to as many files as they need.
type output struct {
	pacer     pacing.Pacer
	rewrites  int             // for a rewrite: its debts.files
	ctx       context.Context // of the flush or merge
	t         *tree
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
func (t *tree) newOutput(ctx context.Context, expect int, older, inputs []*run) *output {
	codec := t.family.compression
	if codec == segment.Small {
		codec = segment.Fast // Small is for the oldest run: see merge
	}
	o := &output{ctx: ctx, t: t, expect: expect, codec: codec, lo: t.rng.Min, hi: t.rng.Max, merges: len(inputs) > 0}
	if o.index.policy = t.family.indexing.Load(); o.index.policy != nil {
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
	} else if errors.Is(err, fault.ErrCorrupt) {
		return in.file.refused(err)
	} else if err != nil {
		return err
	}
	return o.takeIndex(in, reads)
}

// begin makes sure that a file is open, and starts the next one at a boundary
// between logical partitions once the present one is large enough.
func (o *output) begin(k *item.Key) error {
	if o.w != nil && o.w.Size() >= o.t.env.fileBytes && item.HashOf(k.EPK) != o.last.Hash {
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
	o.number = o.t.newFileNumber()
	o.numbers = append(o.numbers, o.number)
	o.temp = path.Join(o.t.dir, manifest.SegmentName(o.number)+manifest.TempSuffix)
	f, err := o.t.env.fs.Create(o.temp)
	if err != nil {
		return err
	}
	o.w, err = segment.NewWriter(f, segment.WriterOptions{
		FileNumber: o.number, StoreID: o.t.env.storeID, Levels: o.t.family.levels,
		Compression: o.codec, Dictionary: o.dict, EPK: appendEPK, Seed: o.t.env.seed, ExpectItems: o.expect,
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
	final := path.Join(o.t.dir, manifest.SegmentName(o.number))
	fsys := o.t.env.fs
	opts := o.t.env.reader
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
	if err := o.t.env.fs.SyncDir(o.t.dir); err != nil {
		return nil, err
	}
	return &run{files: o.files, expiring: o.expiring}, nil
}

// abandon removes the files unless they were published. If it is unknown whether
// the manifest was stored, it removes nothing. The partition's floor stays at or
// below the numbers of files that remain, so that the next open removes them.
func (o *output) abandon() {
	o.pacer.Close()
	for _, f := range o.files {
		f.Unpin()
	}
	if o.published {
		o.t.built(o.numbers)
		return
	}
	if o.w != nil {
		o.w.Abort()
	}
	o.endIndex()
	for _, f := range o.files {
		f.Release()
	}
	if o.t.install.dir.Failed() != nil {
		return
	}
	gone := true
	for _, name := range append(o.named, o.temp) {
		if name == "" {
			continue
		}
		if err := o.t.env.fs.Remove(name); err != nil && !errors.Is(err, fault.ErrMissing) {
			gone = false
		}
	}
	if gone {
		o.t.built(o.numbers)
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

func (t *tree) newOverlap(runs []*run) *overlap { return &overlap{runs: runs} }

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
