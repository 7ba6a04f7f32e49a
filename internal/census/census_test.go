package census

import (
	"errors"
	"slices"
	"testing"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/keybounds"
	"github.com/cleavestore/cleave/internal/lifetime"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/lsmtest"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/segment"
)

// written returns a file with documents of 100 bytes under two partition keys, and with
// tombstones.
func written(t *testing.T, fs vfs.FS, name string, documents, tombstones int) *lsm.File {
	t.Helper()
	out, err := fs.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	hash := func(dst, pk []byte) []byte {
		epk := partmap.HashEncoded(pk)
		return append(dst, epk.Bytes()...)
	}
	w, err := segment.NewWriter(out, segment.WriterOptions{FileNumber: 1, Levels: 1, EPK: hash})
	if err != nil {
		t.Fatal(err)
	}
	var keys []item.Key
	for i := range documents + tombstones {
		keys = append(keys, lsmtest.Key(partmap.Number(float64(i%2)), string(rune('a'+i))))
	}
	slices.SortFunc(keys, func(a, b item.Key) int { return item.Compare(&a, &b) })
	for i := range keys {
		v := item.Version{Seq: uint64(i + 1), Body: make([]byte, 100)}
		if i < tombstones {
			v = item.Version{Seq: uint64(i + 1), Flags: item.Tombstone}
		}
		if err := w.Add(&keys[i], &v); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	r, err := segment.Open(fs, name, segment.ReaderOptions{Mode: segment.Pread, EPK: hash})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Release)
	return &lsm.File{Reader: r, Ref: manifest.File{Number: 1, Size: 1000}, Name: name}
}

// TestOf: a version is counted over memtables, frozen ones and files; only one source
// without deletes is exact, and only what is known.
func TestOf(t *testing.T) {
	s := lsmtest.New(t, 16<<20)
	tree := s.Tree()
	if c := Of(tree.Version.Load(), lifetime.Past{}); c != (Count{Exact: true, MemBytes: c.MemBytes}) {
		t.Errorf("empty: %+v", c)
	}
	s.Put(tree, partmap.String("k"), "a", item.Version{Body: make([]byte, 10)})
	if c := Of(tree.Version.Load(), lifetime.Past{}); c.Items != 1 || c.RawBytes != 10 || c.Memtables != 1 || c.Exact {
		t.Errorf("one memtable: %+v", c)
	}
	s.Freeze(tree)
	if c := Of(tree.Version.Load(), lifetime.Past{}); c.Items != 1 || c.RawBytes != 10 || c.Memtables != 1 || !c.Exact {
		t.Errorf("one frozen memtable: %+v", c)
	}
	inherited := *tree.Version.Load()
	inherited.Frozen = slices.Clone(inherited.Frozen)
	inherited.Frozen[0].Clip = keybounds.New(partmap.Ranges(2)[0], 1)
	if c := Of(&inherited, lifetime.Past{}); c.Items != 1 || c.Exact {
		t.Errorf("a memtable that two partitions share: %+v", c)
	}
	s.Put(tree, partmap.String("k"), "b", item.Version{Body: make([]byte, 5)})

	f := written(t, vfs.NewMem(), "f", 6, 2)
	v := *tree.Version.Load()
	v.SetRuns([]*lsm.Run{{Files: []*lsm.File{f}}})
	want := Count{Items: 8, Tombstones: 2, Dead: 2, Logical: 2, RawBytes: 615, FileBytes: 1000, Memtables: 2, Runs: 1, Files: 1}
	got := Of(&v, lifetime.Past{})
	if want.MemBytes = got.MemBytes; got != want || got.MemBytes < v.Active.Bytes()+v.Frozen[0].Bytes() {
		t.Errorf("%+v, want %+v", got, want)
	}

	alone := lsm.Version{Active: s.Tree().Version.Load().Active}
	alone.SetRuns([]*lsm.Run{{Files: []*lsm.File{written(t, vfs.NewMem(), "f", 6, 0)}}})
	if c := Of(&alone, lifetime.Past{}); c.Items != 6 || !c.Exact {
		t.Errorf("a file without tombstones: %+v", c)
	}
}

// TestFileSeq: the highest sequence is that of all files together. Memtables do not count, nor
// does a file that cannot be opened.
func TestFileSeq(t *testing.T) {
	s := lsmtest.New(t, 16<<20)
	tree := s.Tree()
	s.Put(tree, partmap.String("k"), "a", item.Version{Body: make([]byte, 10)})
	v := *tree.Version.Load()
	if got := FileSeq(&v); got != 0 {
		t.Errorf("without files: %d", got)
	}
	fs := vfs.NewMem()
	broken := &lsm.File{Reader: segment.Damaged("d", errors.New("broken"), item.Key{}, item.Key{}), Name: "d"}
	v.SetRuns([]*lsm.Run{{Files: []*lsm.File{written(t, fs, "a", 3, 0), written(t, fs, "b", 6, 2)}}, {Files: []*lsm.File{written(t, fs, "c", 5, 0), broken}}})
	if got := FileSeq(&v); got != 8 {
		t.Errorf("%d, want 8", got)
	}
}

// TestStale: files without an index for a policy are counted, but those that are set aside
// give their damage.
func TestStale(t *testing.T) {
	policy, err := index.Compile(index.All())
	if err != nil {
		t.Fatal(err)
	}
	fs := vfs.NewMem()
	a, b := written(t, fs, "a", 3, 0), written(t, fs, "b", 3, 0)
	var v lsm.Version
	v.SetRuns([]*lsm.Run{{Files: []*lsm.File{a}}, {Files: []*lsm.File{b}}})
	if files, bytes, damage := Stale(&v, policy); files != 2 || bytes != 2000 || damage != nil {
		t.Errorf("%d files, %d bytes, %v", files, bytes, damage)
	}
	broken := errors.New("broken")
	b.Damage.Store(&broken)
	b.Aside.Store(true)
	if files, bytes, damage := Stale(&v, policy); files != 1 || bytes != 1000 || damage != broken {
		t.Errorf("with one set aside: %d files, %d bytes, %v", files, bytes, damage)
	}
	var names []string
	for f := range Files(&v) {
		if names = append(names, f.Name); len(names) == 1 {
			break
		}
	}
	if len(names) != 1 {
		t.Errorf("%q", names)
	}
}

// TestHolds: what only a feed or the grace of expiry keeps.
func TestHolds(t *testing.T) {
	fs := vfs.NewMem()
	var v lsm.Version
	r := &lsm.Run{Files: []*lsm.File{written(t, fs, "a", 3, 1)}}
	v.SetRuns([]*lsm.Run{r})
	if !HoldsChanges(&v, 1) || HoldsChanges(&v, 1<<40) {
		t.Errorf("a tombstone: from 1 on %v, from later on %v", HoldsChanges(&v, 1), HoldsChanges(&v, 1<<40))
	}
	v.SetRuns([]*lsm.Run{{Files: []*lsm.File{written(t, fs, "b", 3, 0)}}})
	if HoldsChanges(&v, 1) {
		t.Error("without a deleted version")
	}
	if HoldsExpired(&v, lifetime.Past{Expired: 1 << 40}, lifetime.Past{}) {
		t.Error("nothing expires")
	}
}
