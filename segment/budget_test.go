package segment

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// shelf is some files that share a budget.
type shelf struct {
	t       *testing.T
	mem     *vfs.Mem
	fs      *vfs.Limited
	m       model
	readers []*Reader
	retired []func()
}

func newShelf(t *testing.T, files int, o BudgetOptions) *shelf {
	s := &shelf{t: t, mem: vfs.NewMem(), m: contents(rand.New(rand.NewPCG(1, 2)))["small"]}
	if len(s.m) == 0 {
		t.Fatal("no content")
	}
	s.fs = vfs.NewLimited(s.mem, o.MaxFiles, o.MaxMappings)
	o.Retire = func(fn func()) { s.retired = append(s.retired, fn) }
	budget := NewBudget(o)
	for i := range files {
		name := fmt.Sprint(i, ".seg")
		write(t, s.mem, name, s.m, WriterOptions{})
		s.readers = append(s.readers, s.open(name, ReaderOptions{Budget: budget}))
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
	s := newShelf(t, 20, BudgetOptions{MaxFiles: 3, MaxMappings: 4})
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 2000 {
		k := s.m.someKey(rng)
		checkGet(t, s.readers[rng.IntN(len(s.readers))], s.m, &k, math.MaxUint64)
		if i%10 == 0 {
			s.retire()
		}
	}
	st := s.readers[0].budget.Stats()
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
	if st := s.readers[0].budget.Stats(); st.Files != 0 || st.Mappings != 0 {
		t.Errorf("%+v", st)
	}
}

// TestPinnedMapping: a mapping that was unpublished comes back for who has pinned the
// reader meanwhile, and for nobody else.
func TestPinnedMapping(t *testing.T) {
	for _, pinned := range []bool{true, false} {
		s := newShelf(t, 2, BudgetOptions{MaxFiles: 2, MaxMappings: 1})
		r, other := s.readers[0], s.readers[1]
		v := r.view()
		before := v.data[headerLen]
		if other.view() != nil || r.mapping.now.Load() != nil || len(s.retired) != 1 {
			t.Fatal("the second reader did not ask for room")
		}
		if r.view() != nil {
			t.Error("a mapping is made beside one that leaves")
		}
		if pinned {
			r.Pin()
		}
		data := v.data
		s.retire()
		if got := r.mapping.now.Load() == v; got != pinned {
			t.Errorf("pinned %t, published again %t", pinned, got)
		}
		if same := data[headerLen] == before && data[headerLen+1] != 0xDB; same != pinned {
			t.Errorf("pinned %t, still mapped %t", pinned, same)
		}
		if pinned {
			r.Unpin()
			other.view()
			s.retire()
		}
		if other.view() == nil {
			t.Error("no room was made")
		}
	}
}

// TestNames: a reader opens its file by any name that it has, and takes no other file for
// it.
func TestNames(t *testing.T) {
	s := newShelf(t, 2, BudgetOptions{MaxFiles: 1, MaxMappings: 1})
	r, other := s.readers[0], s.readers[1]
	reopen := func() error {
		_, err := other.section(other.groups, other.groups.Len) // takes the descriptor
		if err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Fatal(err)
		}
		var b [headerLen]byte
		return r.readAt(b[:], 0)
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
		s := newShelf(t, 2, BudgetOptions{MaxFiles: 2, MaxMappings: 1})
		r := s.open("0.seg", ReaderOptions{Budget: s.readers[0].budget, Keep: true, Mode: mode})
		must(t, s.mem.Remove("0.seg"))
		for range 3 {
			var b [headerLen]byte
			must(t, s.readers[1].readAt(b[:], 0))
			k := s.m[0].key
			checkGet(t, r, s.m, &k, math.MaxUint64)
			must(t, r.readAt(b[:], 0))
		}
	}
}

// TestWaitForDescriptor: who needs a descriptor while all are in the middle of a call
// waits for one of these.
func TestWaitForDescriptor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t, 2, BudgetOptions{MaxFiles: 1, MaxMappings: 1})
		r, other := s.readers[0], s.readers[1]
		f, err := r.take()
		must(t, err)
		ended := make(chan error, 1)
		go func() {
			var b [headerLen]byte
			ended <- other.readAt(b[:], 0)
		}()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("two files are open: %v", err)
		default:
		}
		if _, err := f.Stat(); err != nil {
			t.Errorf("the file was closed in the middle of a call: %v", err)
		}
		r.give()
		must(t, <-ended)
	})
}
