package lsm

import (
	"context"
	"errors"
	"path"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/pacing"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// output writes items, in order, to as many files as they need.
type output struct {
	pacer     pacing.Pacer
	piece     piece
	rewrites  int             // for a rewrite: its pacing.Debts.Files
	ctx       context.Context // of the flush or compaction
	t         *Tree
	compacts  bool // of a compaction, which gives way to flushes
	expect    int
	numbers   []uint64
	Dict      *segment.Dictionary
	Codec     segment.Compression
	w         *segment.Writer
	temp      string
	number    uint64
	files     []*File
	named     []string    // final names given
	lo        partmap.EPK // lower bound of the file being written
	hi        partmap.EPK // upper bound of the last file
	last      []byte      // of the EPK of the last item added: what the file's table has of it
	deleted   DeletedBefore
	hidden    bool // the last version was deleted with its logical partition, in this file
	Items     int64
	expiring  lifetime.Tally
	paced     int64        // size of the present file when the compaction was last paced
	rate      *pacing.Rate // of a trim, within that of all compactions; nil: that of all
	interlude interlude
	index     outputIndex
	vectors   *vectorFinder // nil: overwritten versions are not looked for
	Published bool
}

// NewOutput returns an output of a flush or compaction. older are the runs with older
// versions; inputs are the runs that a compaction reads, none for a flush.
func (t *Tree) NewOutput(ctx context.Context, expect int, older, inputs []*Run) *output {
	codec := t.Family.Compression
	if codec == segment.Small {
		codec = segment.Fast // Small is for the oldest run: see CompactionDictionary
	}
	o := &output{ctx: ctx, t: t, expect: expect, Codec: codec, lo: t.Range.Min, hi: t.Range.Max, compacts: len(inputs) > 0}
	if t.Env.Opening {
		return o
	}
	if o.index.policy = t.Family.Indexing.Load(); o.index.policy != nil {
		o.vectors = newVectorFinder(older, inputs)
	}
	return o
}

func (o *output) Add(k *item.Key, v *item.Version) error {
	if err := o.begin(k); err != nil {
		return err
	}
	o.Items++
	o.expiring.Note(v, o.t.Life.Follows())
	o.vectors.note(k, v.Seq)
	o.hidden = o.deleted.Hides(k, v)
	if err := o.w.Add(k, v); err != nil {
		return err
	}
	return o.indexDocument(v)
}

// addFrom adds the current version of an input.
func (o *output) addFrom(in *runWalker) error {
	if err := o.begin(in.walker.Key()); err != nil {
		return err
	}
	o.Items++
	o.expiring.Note(in.walker.Version(), o.t.Life.Follows())
	o.vectors.note(in.walker.Key(), in.walker.Version().Seq)
	o.hidden = o.deleted.Hides(in.walker.Key(), in.walker.Version())
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
	place := k.EPK[:max(0, len(k.EPK)-8)]
	if o.w != nil && o.w.Size() >= o.t.Env.FileBytes && string(place) != string(o.last) {
		epk := partmap.HashEncoded(k.PK)
		if err := o.finishFile(epk); err != nil {
			return err
		}
		o.lo = epk
	}
	o.last = append(o.last[:0], place...)
	if o.w != nil {
		return nil
	}
	o.number = o.t.NewFileNumber()
	o.numbers = append(o.numbers, o.number)
	o.temp = path.Join(o.t.Dir, manifest.SegmentName(o.number)+manifest.TempSuffix)
	f, err := o.t.Env.FS.Create(o.temp)
	if err != nil {
		return err
	}
	o.w, err = segment.NewWriter(f, segment.WriterOptions{
		FileNumber: o.number, StoreID: o.t.Env.StoreID, Levels: o.t.Family.Levels,
		Compression: o.Codec, Dictionary: o.Dict, EPK: AppendEPK, Seed: o.t.Env.Seed, ExpectItems: o.expect,
	})
	o.beginIndex()
	return err
}

// finishFile completes the file being written, whose upper bound is hi.
func (o *output) finishFile(hi partmap.EPK) error {
	o.finishIndex()
	vectors := o.vectors.end()
	if vectors != nil {
		o.w.SetDeletionVectors(vectors)
	}
	_, err := o.w.Finish()
	o.w = nil
	o.failIndex(err)
	o.endIndex()
	if err != nil {
		return err
	}
	final := path.Join(o.t.Dir, manifest.SegmentName(o.number))
	fsys := o.t.Env.FS
	opts := o.t.Env.Reader
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
	o.temp, o.paced, o.piece.from = "", 0, 0
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
	f := &File{Reader: reader, Name: final, Min: o.lo, Max: hi}
	f.Ref = manifest.File{
		Number: o.number, Size: info.Size, FooterCRC: reader.FooterCRC(),
		Min: append([]byte{}, o.lo.Bytes()...), Max: append([]byte{}, hi.Bytes()...),
	}
	f.VectorCache.keep(vectors)
	f.Pin() // until abandon
	o.files = append(o.files, f)
	return nil
}

// Finish completes the run and makes the names of its files durable.
func (o *output) Finish() (*Run, error) {
	if o.w != nil {
		if err := o.finishFile(o.hi); err != nil {
			return nil, err
		}
	}
	if err := o.t.Env.FS.SyncDir(o.t.Dir); err != nil {
		return nil, err
	}
	return &Run{Files: o.files, Expiring: o.expiring.Summary()}, nil
}

// Abandon removes the files unless they were published. If it is unknown whether
// the manifest was stored, it removes nothing. The partition's floor stays at or
// below the numbers of files that remain, so that the next open removes them.
func (o *output) Abandon() {
	o.pacer.Close()
	for _, f := range o.files {
		f.Unpin()
	}
	if o.Published {
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
	if o.t.Install.Dir.Failed() != nil {
		return
	}
	gone := true
	for _, name := range append(o.named, o.temp) {
		if name == "" {
			continue
		}
		if err := o.t.Env.FS.Remove(name); err != nil && !errors.Is(err, fault.ErrMissing) {
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
	runs  []*Run
	seen  int64
	found int64
	whole int64 // versions of deleted logical partitions: counted, not estimated
}

const overlapEvery = 64

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
		f := r.Find(&epk)
		if f == nil {
			continue
		}
		if ok, err := f.Head(l, MaxSequence, &v); err == nil && ok {
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
		if f := r.Find(&epk); f != nil {
			if items, _, ok, err := f.PartitionStats(k); err == nil && ok {
				o.whole += int64(items)
			}
		}
	}
}

func (o *overlap) estimate() int64 { return o.found*overlapEvery + o.whole }
