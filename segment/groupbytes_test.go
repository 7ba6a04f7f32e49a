package segment

import (
	"math"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/openfile"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// coldFile is a file of about a MiB on a file system that counts its reads.
func coldFile(t *testing.T, o ReaderOptions) (r *Reader, m model, reads func() int64) {
	t.Helper()
	rng := randtest.New(t)
	for i := range 600 {
		k := newKey(encodeKey("p"), string(rune('a'+i%26))+string(rune('a'+i/26)))
		m = append(m, entry{k, item.Version{Seq: uint64(i + 1), Body: append(noise(3000)(rng, nil, nil), k.ID...)}})
	}
	m.sort()
	fsys := vfs.NewFaulty(vfs.NewMem())
	write(t, fsys, "a", m, WriterOptions{Compression: None})
	var n int64
	o.EPK = hashEPK
	fsys.SetHook(func(c vfs.Call) error {
		if c.Op == vfs.OpRead {
			n++
		}
		return nil
	})
	r, err := Open(fsys, "a", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Release)
	r.residency.Slow = slowTouch // however busy the machine is
	return r, m, func() int64 {
		got := n
		n = 0
		return got
	}
}

const slowTouch = time.Hour

// What was read is not read again; what is warm is not read at all.
func TestColdReads(t *testing.T) {
	cold := openfile.NewColdReads(1)
	r, m, reads := coldFile(t, ReaderOptions{Cold: cold})
	reads()
	for _, e := range m {
		checkGet(t, r, m, &e.key, math.MaxUint64)
	}
	n := reads()
	if n < 100 {
		t.Errorf("%d reads of a cold file", n)
	}
	if counted, _ := cold.Stats(); counted != n {
		t.Errorf("%d reads, counted %d", n, counted)
	}
	for _, e := range m {
		checkGet(t, r, m, &e.key, math.MaxUint64)
	}
	if n := reads(); n != 0 {
		t.Errorf("%d reads of a warm file", n)
	}
	// One slow touch: the pages near it are read again, no others.
	k := &m[len(m)/2].key
	c := r.Cursor(math.MaxUint64)
	if !c.SeekGE(k) {
		t.Fatal(c.Err())
	}
	r.residency.Observe(c.open.off, slowTouch)
	for range 2 {
		checkGet(t, r, m, k, math.MaxUint64)
		checkGet(t, r, m, &m[0].key, math.MaxUint64)
	}
	if n := reads(); n == 0 || n > 3 {
		t.Errorf("%d reads after a slow touch", n)
	}
	for range 10 {
		r.residency.Observe(c.open.off, slowTouch)
	}
	checkGet(t, r, m, &m[0].key, math.MaxUint64)
	if n := reads(); n == 0 {
		t.Error("no reads after many slow touches")
	}
}

func TestWarmReads(t *testing.T) {
	r, m, reads := coldFile(t, ReaderOptions{Warm: true})
	checkGet(t, r, m, &m[0].key, math.MaxUint64) // loads the index
	reads()
	for _, e := range m {
		checkGet(t, r, m, &e.key, math.MaxUint64)
	}
	if n := reads(); n != 0 {
		t.Errorf("%d reads", n)
	}
}

// A cursor reads ahead, in both directions.
func TestCursorReadsAhead(t *testing.T) {
	for _, back := range []bool{false, true} {
		r, _, reads := coldFile(t, ReaderOptions{Cold: openfile.NewColdReads(1)})
		c := r.Cursor(math.MaxUint64)
		reads()
		n := 0
		if back {
			for ok := c.Last(); ok; ok = c.Prev() {
				n++
			}
		} else {
			for ok := c.First(); ok; ok = c.Next() {
				n++
			}
		}
		if c.Err() != nil || n != 600 {
			t.Fatalf("%d items, %v", n, c.Err())
		}
		if got, most := reads(), r.Size()/coldAhead*3/2+10; got > most {
			t.Errorf("back %t: %d reads, want at most %d", back, got, most)
		}
	}
}

// Point reads into a buffer with room, and cursors that move, allocate nothing.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	rng := randtest.New(t)
	m := maker{rng: rng, levels: 1, partitions: 20, ids: 40, versions: 2, body: document}.make()
	for _, o := range []WriterOptions{{Dictionary: testDictionary(t)}, {Compression: Small, Dictionary: testDictionary(t)}, {Compression: None}} {
		for _, mode := range []Mode{Map, Pread} {
			fsys := vfs.NewMem()
			write(t, fsys, "a", m, o)
			r := open(t, fsys, "a", mode)
			buf := make([]byte, 0, 16<<10)
			c := r.Cursor(math.MaxUint64)
			i := 0
			pass := func() {
				k := &m[i%len(m)].key
				i++
				var v item.Version
				if _, _, err := r.Get(k.Lookup(), math.MaxUint64, buf, &v); err != nil {
					t.Fatal(err)
				}
				if !c.SeekGE(k) {
					t.Fatal(c.Err())
				}
				c.Next()
			}
			for range len(m) {
				pass()
			}
			if n := testing.AllocsPerRun(len(m), pass); n > 0.5 { // a pool may be emptied
				t.Errorf("%v, mode %d: %g allocations", o.Compression, mode, n)
			}
		}
	}
}
