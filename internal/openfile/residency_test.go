package openfile

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/vfs"
)

// TestObserve: a slow touch takes the hints near it back, several in a row take all; one
// that many quick ones follow is forgotten.
func TestObserve(t *testing.T) {
	var h Residency
	h.Init(0, 4*wordBytes, true)
	h.Observe(wordBytes, slowTouch)
	if h.Has(wordBytes, 1) || !h.Has(0, wordBytes) || !h.Has(2*wordBytes, wordBytes) {
		t.Error("one slow touch: the wrong hints are gone")
	}
	for range 100 {
		h.Observe(0, 0)
	}
	if n := h.faults.Load(); n != 0 {
		t.Errorf("%d slow touches remembered", n)
	}
	for range faultLimit / faultWeight {
		h.Observe(wordBytes, slowTouch)
	}
	if h.Has(0, 1) || h.Has(2*wordBytes, 1) {
		t.Error("several slow touches: hints are left")
	}
}

// TestHas: pages were read if each of them was, within a word of hints and across words.
func TestHas(t *testing.T) {
	const pages = 3 * 64
	var h Residency
	h.Init(pageLen/2, pages*pageLen, false)
	var read [pages]bool
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		from := rng.IntN(pages)
		n := 1 + rng.IntN(min(40, pages-from))
		h.Note(int64(from*pageLen+1), int64(n*pageLen-1))
		for i := range n {
			read[from+i] = true
		}
		for first := range pages {
			all := true
			for last := first; last < pages; last++ {
				all = all && read[last]
				if off, n := first*pageLen+100, (last-first)*pageLen+1; h.Has(int64(off), int64(n)) != all {
					t.Fatalf("pages %d to %d: Has says %v", first, last, !all)
				}
			}
		}
	}
}

// TestReadCold: a cold read has a place as long as it lasts, and is counted.
func TestReadCold(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.WriteFile("a", make([]byte, 100)))
	fsys := vfs.NewFaulty(mem)
	cold := NewColdReads(1)
	var f File
	f.Init(fsys, "a", Options{Cold: cold})
	defer f.Close()
	fsys.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpRead {
			if len(cold.places) != 1 {
				t.Errorf("read of %d bytes at %d without a place", c.Len, c.Off)
			}
		}
		return nil
	})
	must(t, f.ReadCold(make([]byte, 10), 5))
	if n, _ := cold.Stats(); n != 1 {
		t.Errorf("%d reads counted", n)
	}
}

// TestReadColdTogether: cold reads at the same time, which are parked where the system
// offers that, give the bytes of the file, and errors where there are none.
func TestReadColdTogether(t *testing.T) {
	fsys, err := vfs.OpenRoot(t.TempDir())
	must(t, err)
	data := make([]byte, 300_000)
	for i := range data {
		data[i] = byte(i ^ i>>8)
	}
	file, err := fsys.Create("a")
	must(t, err)
	_, err = file.WriteAt(data, 0)
	must(t, err)
	must(t, file.Close())
	cold := NewColdReads(16)
	var f File
	f.Init(fsys, "a", Options{Cold: cold})
	defer f.Close()
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			b := make([]byte, 4096)
			for i := range 100 {
				off := (g*100 + i) * 7919 % (len(data) - len(b))
				if err := f.ReadCold(b, int64(off)); err != nil || !bytes.Equal(b, data[off:off+len(b)]) {
					t.Errorf("at %d: %v", off, err)
					return
				}
				if err := f.ReadCold(b, int64(len(data)-100)); !errors.Is(err, fault.ErrCorrupt) {
					t.Errorf("behind the end: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n, _ := cold.Stats(); n != 32*200 {
		t.Errorf("%d reads counted", n)
	}
}
