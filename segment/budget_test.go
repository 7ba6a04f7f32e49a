package segment

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/openfile"
	"github.com/cleavestore/cleave/internal/vfs"
)

// shelf is some files that share a budget.
type shelf struct {
	t       *testing.T
	mem     *vfs.Mem
	fs      *vfs.Limited
	m       model
	budget  *openfile.Budget
	readers []*Reader
	retired []func()
}

func newShelf(t *testing.T, files int, o openfile.BudgetOptions) *shelf {
	s := &shelf{t: t, mem: vfs.NewMem(), m: contents(rand.New(rand.NewPCG(1, 2)))["small"]}
	if len(s.m) == 0 {
		t.Fatal("no content")
	}
	s.fs = vfs.NewLimited(s.mem, o.MaxFiles, o.MaxMappings)
	o.Retire = func(fn func()) { s.retired = append(s.retired, fn) }
	s.budget = openfile.NewBudget(o)
	for i := range files {
		name := fmt.Sprint(i, ".seg")
		write(t, s.mem, name, s.m, WriterOptions{})
		s.readers = append(s.readers, s.open(name, ReaderOptions{Budget: s.budget}))
	}
	return s
}

func (s *shelf) open(name string, o ReaderOptions) *Reader {
	s.t.Helper()
	o.EPK = hashEPK
	r, err := Open(s.fs, name, o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if r.refs.Load() > 0 {
			r.Release()
		}
	})
	return r
}

func (s *shelf) retire() {
	for _, fn := range s.retired {
		fn()
	}
	s.retired = nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestBudget reads files at random, more than there may be open or mapped.
func TestBudget(t *testing.T) {
	s := newShelf(t, 20, openfile.BudgetOptions{MaxFiles: 3, MaxMappings: 4})
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 2000 {
		k := s.m.someKey(rng)
		checkGet(t, s.readers[rng.IntN(len(s.readers))], s.m, &k, math.MaxUint64)
		if i%10 == 0 {
			s.retire()
		}
	}
	st := s.budget.Stats()
	if st.Files > 3 || st.Mappings > 4 || st.Reopens == 0 || st.Remaps == 0 {
		t.Errorf("%+v", st)
	}
	for _, r := range s.readers {
		r.Release()
	}
	s.retire()
	if files, maps := s.fs.Used(); files != 0 || maps != 0 {
		t.Errorf("%d files open, %d mapped", files, maps)
	}
	if st := s.budget.Stats(); st.Files != 0 || st.Mappings != 0 {
		t.Errorf("%+v", st)
	}
}

// TestNames: a reader opens its file by any name that it has, and takes no other file for
// it.
func TestNames(t *testing.T) {
	s := newShelf(t, 2, openfile.BudgetOptions{MaxFiles: 1, MaxMappings: 1})
	r, other := s.readers[0], s.readers[1]
	reopen := func() error {
		_, err := other.section(other.groups, other.groups.Len) // takes the descriptor
		if err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Fatal(err)
		}
		var b [headerLen]byte
		return r.file.ReadAt(b[:], 0)
	}
	r.Pin()
	if r.LetGo("0.seg") {
		t.Error("the last name of a reader that is pinned may go")
	}
	must(t, s.mem.Link("0.seg", "link.seg"))
	r.AddName("link.seg")
	if !r.LetGo("0.seg") {
		t.Error("a name that is not the last one has to stay")
	}
	must(t, s.mem.Remove("0.seg"))
	must(t, reopen())

	data, err := s.mem.ReadFile("link.seg")
	must(t, err)
	must(t, s.mem.WriteFile("copy.seg", data))
	r.AddName("copy.seg")
	must(t, s.mem.Remove("link.seg"))
	must(t, reopen())

	must(t, s.mem.Remove("copy.seg"))
	if err := reopen(); !errors.Is(err, fault.ErrMissing) {
		t.Errorf("without a name: %v", err)
	}
	write(t, s.mem, "copy.seg", contents(rand.New(rand.NewPCG(1, 2)))["one item"], WriterOptions{})
	if err := reopen(); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("another file of that name: %v", err)
	}
	r.Unpin()
	if !r.LetGo("copy.seg") {
		t.Error("the name of a reader that nobody has pinned has to stay")
	}
}

// TestKeep: a file that is kept can be read when it has no name, mapped or not.
func TestKeep(t *testing.T) {
	for _, mode := range []Mode{Map, Pread} {
		s := newShelf(t, 2, openfile.BudgetOptions{MaxFiles: 2, MaxMappings: 1})
		r := s.open("0.seg", ReaderOptions{Budget: s.budget, Keep: true, Mode: mode})
		must(t, s.mem.Remove("0.seg"))
		for range 3 {
			var b [headerLen]byte
			must(t, s.readers[1].file.ReadAt(b[:], 0))
			k := s.m[0].key
			checkGet(t, r, s.m, &k, math.MaxUint64)
			must(t, r.file.ReadAt(b[:], 0))
		}
	}
}
