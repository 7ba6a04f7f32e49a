package openfile

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/cleavestore/cleave/internal/vfs"
)

// shelf is some files that share a budget.
type shelf struct {
	files   []*File
	retired []func()
}

func newShelf(t *testing.T, files int, o BudgetOptions) *shelf {
	s := &shelf{}
	mem := vfs.NewMem()
	fsys := vfs.NewLimited(mem, o.MaxFiles, o.MaxMappings)
	o.Retire = func(fn func()) { s.retired = append(s.retired, fn) }
	budget := NewBudget(o)
	for i := range files {
		name, data := fmt.Sprint(i), make([]byte, 1000)
		for at := range data {
			data[at] = byte(at)
		}
		must(t, mem.WriteFile(name, data))
		f := new(File)
		f.Init(fsys, name, Options{Map: true, Budget: budget})
		f.SetSize(int64(len(data)))
		t.Cleanup(f.Close)
		s.files = append(s.files, f)
	}
	return s
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

// TestPinnedMapping: a mapping that was unpublished comes back for who has pinned the
// file meanwhile, and for nobody else.
func TestPinnedMapping(t *testing.T) {
	for _, pinned := range []bool{true, false} {
		s := newShelf(t, 2, BudgetOptions{MaxFiles: 2, MaxMappings: 1})
		f, other := s.files[0], s.files[1]
		v := f.View()
		before := v.Data[100]
		if other.View() != nil || f.mapping.now.Load() != nil || len(s.retired) != 1 {
			t.Fatal("the second file did not ask for room")
		}
		if f.View() != nil {
			t.Error("a mapping is made beside one that leaves")
		}
		if pinned {
			f.Pin()
		}
		data := v.Data
		s.retire()
		if got := f.mapping.now.Load() == v; got != pinned {
			t.Errorf("pinned %t, published again %t", pinned, got)
		}
		if same := data[100] == before && data[101] != 0xDB; same != pinned {
			t.Errorf("pinned %t, still mapped %t", pinned, same)
		}
		if pinned {
			f.Unpin()
			other.View()
			s.retire()
		}
		if other.View() == nil {
			t.Error("no room was made")
		}
	}
}

// TestWaitForDescriptor: who needs a descriptor while all are in the middle of a call
// waits for one of these.
func TestWaitForDescriptor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t, 2, BudgetOptions{MaxFiles: 1, MaxMappings: 1})
		f, other := s.files[0], s.files[1]
		open, err := f.take()
		must(t, err)
		ended := make(chan error, 1)
		go func() {
			var b [16]byte
			ended <- other.ReadAt(b[:], 0)
		}()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("two files are open: %v", err)
		default:
		}
		if _, err := open.Stat(); err != nil {
			t.Errorf("the file was closed in the middle of a call: %v", err)
		}
		f.give()
		must(t, <-ended)
	})
}

// TestViewBesideUnmap: a goroutine that finds no mapping, while one is published again, makes no second one.
func TestViewBesideUnmap(t *testing.T) {
	s := newShelf(t, 1, BudgetOptions{MaxFiles: 2, MaxMappings: 2})
	f := s.files[0]
	m, b, want := &f.mapping, f.budget, f.View()
	b.mu.Lock()
	b.mappings.remove(&m.slot)
	m.leaving = m.now.Swap(nil)
	got := make(chan *View)
	go func() { got <- f.View() }()
	for m.making.TryLock() { // until the goroutine has it, and waits for mu
		m.making.Unlock()
		runtime.Gosched()
	}
	for range 1000 {
		runtime.Gosched()
	}
	m.leaving = nil
	m.now.Store(want)
	b.mappings.add(&m.slot)
	b.mu.Unlock()
	if <-got != want || len(b.mappings.slots) != 1 {
		t.Errorf("a second mapping; %d are counted", len(b.mappings.slots))
	}
}
