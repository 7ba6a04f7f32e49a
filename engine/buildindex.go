package engine

import (
	"errors"
	"path"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
)

// The index of a file is a section of it. A flush makes it of the documents; a
// merge of the indexes of its inputs, whose ordinals it exchanges, and of the
// documents of inputs that have none for the present policy. It is written,
// checked and published with the file.

// outputIndex is the index of the file that an output writes.
type outputIndex struct {
	policy  *index.Compiled // nil: there is none
	builder *index.Builder
	temp    string // name of the builder's temporary file; empty: it has none
	taken   []*takenIndex
	carried []*takenIndex // of files that are complete
}

// takenIndex is an input's index of which an output file takes a part.
type takenIndex struct {
	file   *file
	number uint64        // of the output file
	r      *index.Reader // nil: there is none for the policy
	remap  index.Remap
}

// beginIndex begins the index of another file.
func (o *output) beginIndex() {
	if o.index.policy == nil {
		return
	}
	o.index.taken = nil
	o.index.builder = index.NewBuilder(o.index.policy, o.p.db.opts.indexBytes(), func() (vfs.File, error) {
		o.index.temp = path.Join(o.p.dir, manifest.SegmentName(o.number)+".index"+manifest.TempSuffix)
		return o.p.db.fs.Create(o.index.temp)
	})
	o.index.builder.Breathe = o.breatheIndex
}

// breatheIndex is breathe while an index is sorted and joined.
func (o *output) breatheIndex() error {
	if err := o.breathe(); err != nil || !o.merges {
		return err
	}
	return o.p.db.pace(o.ctx, o)
}

// indexDocument adds the version that was added last.
func (o *output) indexDocument(v *item.Version) error {
	b := o.index.builder
	if b == nil {
		return nil
	}
	ordinal := o.w.Items() - 1
	b.Note(ordinal, v, o.w.LastOlder() || o.hidden)
	if !v.IsDocument() {
		return nil
	}
	return b.Add(ordinal, v.Body)
}

// takesFrom says whether the document of the version that an input is at must
// be read, because its file has no index that fits.
func (o *output) takesFrom(in *runInput) (reads bool, err error) {
	if o.index.builder == nil {
		return false, nil
	}
	t := in.taken
	if t == nil || t.file != in.file || t.number != o.number {
		t = &takenIndex{file: in.file, number: o.number}
		// One that is damaged is made anew of the documents.
		t.r, err = in.file.openIndex(o.index.policy, true)
		if in.file.badIndex.Load() || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrIO) {
			t.r, err = nil, nil
		}
		if err != nil {
			return false, err
		}
		in.taken = t
		o.index.taken = append(o.index.taken, t)
	}
	return t.r == nil, nil
}

// takeIndex notes the ordinal that the version of an input got. The index is
// that of the input, or if its document was read made of that.
func (o *output) takeIndex(in *runInput, read bool) error {
	b := o.index.builder
	if b == nil {
		return nil
	}
	ordinal, was := o.w.Items()-1, in.walker.Ordinal()
	m := &in.taken.remap
	if m.New == nil {
		m.First = was
	}
	for m.First+uint32(len(m.New)) < was {
		m.New = append(m.New, index.Dropped)
	}
	m.New = append(m.New, ordinal)
	if read {
		return o.indexDocument(in.walker.Version())
	}
	b.Note(ordinal, in.walker.Version(), o.w.LastOlder() || o.hidden)
	return nil
}

// finishIndex makes the file's writer write the index with the tables.
func (o *output) finishIndex() {
	b := o.index.builder
	if b == nil {
		return
	}
	for _, t := range o.index.taken {
		if t.r != nil && t.remap.New != nil {
			b.Take(t.r, t.remap)
		}
	}
	w := o.w
	w.SetIndex(func(emit func([]byte) error) error { return b.WriteTo(emit, w.Items()) })
}

// writes says whether a path is that of a file that the output is writing.
func (o *output) writes(name string) bool {
	fsys := o.p.db.fs
	return name == fsys.Path(o.temp) || o.index.temp != "" && name == fsys.Path(o.index.temp)
}

// failIndex notes, if a file could not be written because the index of an input
// is damaged or cannot be read, that the documents are to be read the next time.
func (o *output) failIndex(err error) {
	if io := new(IOError); errors.Is(err, ErrCorrupt) || errors.As(err, &io) && errors.Is(err, ErrIO) && !o.writes(io.File) {
		for _, t := range o.index.taken {
			t.file.badIndex.Store(true)
		}
	}
}

// endIndex lets go of what the builder holds.
func (o *output) endIndex() {
	if o.index.builder == nil {
		return
	}
	o.index.builder.Close()
	o.index.carried = append(o.index.carried, o.index.taken...)
	o.index.builder, o.index.taken = nil, nil
	if o.index.temp != "" {
		// What stays is removed at the next open.
		if err := o.p.db.fs.Remove(o.index.temp); err != nil {
			o.p.db.backgroundError("remove a temporary file", err)
		}
		o.index.temp = ""
	}
}

var errIndexItems = errors.New("index: of another number of versions than the file has")

// guardedIndex opens the file's index.
func (f *file) guardedIndex(section segment.IndexBytes) (r *index.Reader, err error) {
	err = f.Guard(func() error {
		r, err = index.Open(section)
		return err
	})
	if err == nil && uint64(r.Info().Items) != f.Properties().Items {
		return nil, section.Corrupt(section.Size(), errIndexItems)
	}
	return r, err
}

// openIndex returns the file's index if it is one for the policy, else nil. With
// read it is read past the mapping, and needs no guard.
func (f *file) openIndex(policy *index.Compiled, read bool) (*index.Reader, error) {
	section, ok := f.Index(read)
	if !ok || policy == nil {
		return nil, nil
	}
	r, err := f.guardedIndex(section)
	if err != nil {
		return nil, f.metIndex(err)
	}
	if r.Info().Fingerprint != policy.Fingerprint() {
		return nil, nil
	}
	return r, nil
}
