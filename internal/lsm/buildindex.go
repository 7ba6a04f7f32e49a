package lsm

import (
	"errors"
	"path"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/segment"
)

// The index of a file is a section of the file. A flush builds it from the documents. A
// compaction builds it from the indexes of its inputs, with new ordinals, and from the
// documents of inputs that have no index for the present policy. It is written, checked
// and published with the file.

// outputIndex is the index of the file that an output writes.
type outputIndex struct {
	policy  *index.Compiled // nil: there is none
	builder *index.Builder
	temp    string // name of the builder's temporary file; empty: it has none
	taken   []*takenIndex
	carried []*takenIndex // taken of the files that are complete, as far as there is memory for it
	moved   int64         // versions in taken of these files
}

// takenIndex is an input's index of which an output file takes a part.
type takenIndex struct {
	file   *File
	number uint64        // of the output file
	r      *index.Reader // nil: there is none for the policy
	remap  index.Remap
}

// beginIndex begins the index of the next output file.
func (o *output) beginIndex() {
	if o.index.policy == nil {
		return
	}
	o.index.taken = nil
	o.index.builder = index.NewBuilder(o.index.policy, o.t.Env.IndexBytes, func() (vfs.File, error) {
		o.index.temp = path.Join(o.t.Dir, manifest.SegmentName(o.number)+manifest.IndexSuffix+manifest.TempSuffix)
		return o.t.Env.FS.Create(o.index.temp)
	})
	b := o.index.builder
	b.Breathe, b.Expect, b.Written = o.breatheIndex, o.expect, o.t.Life.Ages()
}

// breatheIndex is breathe while an index is sorted and joined. A compaction is also paced.
func (o *output) breatheIndex() error {
	if err := o.yield(); err != nil || !o.compacts {
		return err
	}
	return o.pace()
}

// indexDocument adds the version that was added to the file last.
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

// takesFrom says whether the document of an input's present version must be read, because
// the input's file has no usable index for the policy.
func (o *output) takesFrom(in *runWalker) (reads bool, err error) {
	if o.index.builder == nil {
		return false, nil
	}
	t := in.taken
	if t == nil || t.file != in.file || t.number != o.number {
		t = &takenIndex{file: in.file, number: o.number}
		// A damaged index is rebuilt from the documents.
		t.r, err = in.file.openIndex(o.index.policy, true)
		if in.file.BadIndex.Load() || errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrIO) {
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

// takeIndex notes the new ordinal of an input's present version. read says that its
// document was read: then the document is indexed. Otherwise its terms come from the input's index.
func (o *output) takeIndex(in *runWalker, read bool) error {
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
	fsys := o.t.Env.FS
	return name == fsys.Path(o.temp) || o.index.temp != "" && name == fsys.Path(o.index.temp)
}

// failIndex handles an error in writing a file. If the index of an input may be damaged
// or unreadable, it marks the indexes of all inputs as bad: the next attempt reads the
// documents.
func (o *output) failIndex(err error) {
	if io := new(fault.IOError); errors.Is(err, fault.ErrCorrupt) || errors.As(err, &io) && errors.Is(err, fault.ErrIO) && !o.writes(io.File) {
		for _, t := range o.index.taken {
			t.file.BadIndex.Store(true)
		}
	}
}

// endIndex closes the builder and removes its temporary file.
func (o *output) endIndex() {
	if o.index.builder == nil {
		return
	}
	o.index.builder.Close()
	for _, t := range o.index.taken {
		o.index.moved += int64(len(t.remap.New))
	}
	if o.index.moved*4 <= o.t.Env.IndexBytes { // else what newer sources overwrite in the file is looked up
		o.index.carried = append(o.index.carried, o.index.taken...)
	}
	o.index.builder, o.index.taken = nil, nil
	if o.index.temp != "" {
		// If this fails, the next open removes the file.
		if err := o.t.Env.FS.Remove(o.index.temp); err != nil {
			o.t.Env.Background("remove a temporary file", err)
		}
		o.index.temp = ""
	}
}

var errIndexItems = errors.New("index: of another number of versions than the file has")

// guardedIndex opens the file's index.
func (f *File) guardedIndex(section segment.IndexBytes) (r *index.Reader, err error) {
	err = f.Guard(func() error {
		r, err = index.Open(section)
		return err
	})
	if err == nil && uint64(r.Info().Items) != f.Properties().Items {
		return nil, section.Corrupt(section.Size(), errIndexItems)
	}
	return r, err
}

// openIndex returns the file's index if it is one for the policy, else nil: also of an index
// of a newer format, which is made anew from the documents. read says to
// read it from the file and not from the mapping: then it needs no guard.
func (f *File) openIndex(policy *index.Compiled, read bool) (*index.Reader, error) {
	section, ok := f.Index(read)
	if !ok || policy == nil {
		return nil, nil
	}
	r, err := f.guardedIndex(section)
	if errors.Is(err, fault.ErrTooNew) || err == nil && r.Info().Fingerprint != policy.Fingerprint() {
		return nil, nil
	}
	return r, f.metIndex(err)
}
