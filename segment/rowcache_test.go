package segment

import (
	"fmt"
	"math"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/rowcache"
	"github.com/cleavestore/cleave/internal/vfs"
)

// Two files with versions of the same keys, read at any sequence, say the same
// with a cache as without one; its bytes are bounded.
func TestHotReads(t *testing.T) {
	rng := randtest.New(t)
	fsys := vfs.NewMem()
	const size = 40 << 10
	hot := rowcache.New(size)
	var readers []*Reader
	var models []model
	for i := range 2 {
		m := maker{rng: rng, levels: 1, partitions: 8, ids: 30, versions: 3, body: document}.make()
		name := fmt.Sprint(i)
		write(t, fsys, name, m, WriterOptions{Dictionary: testDictionary(t)})
		r, err := Open(fsys, name, ReaderOptions{EPK: hashEPK, RowCache: hot})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		readers, models = append(readers, r), append(models, m)
	}
	found := 0
	for range 20_000 {
		i := rng.IntN(2)
		m := models[i]
		n := rng.IntN(len(m))
		if rng.IntN(4) > 0 {
			n = rng.IntN(1 + len(m)/20)
		}
		k := &m[n].key
		maxSeq := uint64(math.MaxUint64)
		if rng.IntN(3) == 0 {
			maxSeq = m[rng.IntN(len(m))].ver.Seq
		}
		if readers[i].hot(k.Lookup(), maxSeq) != nil {
			found++
		}
		checkGet(t, readers[i], m, k, maxSeq)
	}
	if found < 3000 {
		t.Errorf("%d of 20,000 reads were held", found)
	}
	if n := hot.Bytes(); n > size || n == 0 {
		t.Errorf("%d bytes of %d", n, size)
	}
}

// Versions that cursors of two files show by their ordinals, and reads by keys
// beside them, are those of the files.
func TestHotOrdinals(t *testing.T) {
	rng := randtest.New(t)
	fsys := vfs.NewMem()
	const size = 60 << 10
	hot := rowcache.New(size)
	var cursors []*Cursor
	var models []model
	for i := range 2 {
		m := maker{rng: rng, levels: 1 + i, partitions: 8, ids: 30, versions: 3, body: document}.make()
		name := fmt.Sprint(i)
		write(t, fsys, name, m, WriterOptions{Dictionary: testDictionary(t)})
		r, err := Open(fsys, name, ReaderOptions{EPK: hashEPK, RowCache: hot})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		cursors, models = append(cursors, r.Cursor(math.MaxUint64)), append(models, m)
	}
	found := 0
	var k item.Key
	var v item.Version
	for range 20_000 {
		i := rng.IntN(2)
		m, c := models[i], cursors[i]
		n := rng.IntN(len(m))
		if rng.IntN(4) > 0 {
			n = rng.IntN(1 + len(m)/20)
		}
		if key, _ := hot.FindOrdinal(c.r.number, uint32(n)); key != nil {
			found++
		}
		if !c.Show(uint32(n), &k, &v) {
			t.Fatalf("ordinal %d: %v", n, c.Err())
		}
		want := &m[n]
		if item.Compare(&k, &want.key) != 0 || k.Hash != want.key.Hash || !sameVersion(&v, &want.ver) {
			t.Fatalf("file %d, ordinal %d: %s, not %s", i, n, show(&k, &v), show(&want.key, &want.ver))
		}
		if rng.IntN(4) == 0 {
			checkGet(t, c.r, m, &want.key, math.MaxUint64)
		}
	}
	if c := cursors[0]; c.Show(uint32(len(models[0])), &k, &v) || c.Err() != nil {
		t.Errorf("an ordinal beyond the last was shown, or is an error: %v", c.Err())
	}
	if found < 3000 {
		t.Errorf("%d of 20,000 versions were held", found)
	}
	if n := hot.Bytes(); n > size || n == 0 {
		t.Errorf("%d bytes of %d", n, size)
	}
}

// A read of a held item allocates nothing where the buffer has room.
func TestHotAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	rng := randtest.New(t)
	m := maker{rng: rng, levels: 1, partitions: 8, ids: 30, versions: 1, body: document}.make()
	fsys := vfs.NewMem()
	write(t, fsys, "a", m, WriterOptions{Dictionary: testDictionary(t)})
	r, err := Open(fsys, "a", ReaderOptions{EPK: hashEPK, RowCache: rowcache.New(1 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	buf := make([]byte, 0, 16<<10)
	var v item.Version
	var k *item.Key
	get := func() {
		if _, _, err := r.Get(k.Lookup(), math.MaxUint64, buf, &v); err != nil {
			t.Fatal(err)
		}
	}
	held := false // what is stored as it is, is not
	for i := 0; !held; i++ {
		k = &m[i].key
		for range 3 * decodesPerNote {
			get()
		}
		held = r.hot(k.Lookup(), math.MaxUint64) != nil
	}
	if n := testing.AllocsPerRun(100, get); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
