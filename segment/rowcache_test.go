package segment

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
	"github.com/cleavestore/cleave/internal/vfs"
)

// held returns the bytes of the items in the slots.
func (h *RowCache) held() (n int64) {
	for i := range h.slots {
		if it := h.slots[i].item.Load(); it != nil {
			n += it.size()
		}
	}
	return n
}

// Two files with versions of the same keys, read at any sequence, say the same
// with a cache as without one; its bytes are bounded, and counted right.
func TestHotReads(t *testing.T) {
	rng := randtest.New(t)
	fsys := vfs.NewMem()
	const size = 40 << 10
	hot := NewRowCache(size)
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
	if n := hot.Bytes(); n != hot.held() || n > size || n == 0 {
		t.Errorf("%d bytes, %d in slots, of %d", n, hot.held(), size)
	}
}

// Versions that cursors of two files show by their ordinals, and reads by keys
// beside them, are those of the files.
func TestHotOrdinals(t *testing.T) {
	rng := randtest.New(t)
	fsys := vfs.NewMem()
	hot := NewRowCache(60 << 10)
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
		if key, _ := hot.findOrdinal(c.r.number, uint32(n)); key != nil {
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
	if n := hot.Bytes(); n != hot.held() || n > hot.size {
		t.Errorf("%d bytes, %d in slots, of %d", n, hot.held(), hot.size)
	}
}

// What is read often stays while others come and go.
func TestHotStays(t *testing.T) {
	rng := randtest.New(t)
	hot := NewRowCache(64 << 10)
	key := func(i int) *item.Key { k := newKey(encodeKey("p"), fmt.Sprint(i)); return &k }
	version := func(i int) *item.Version {
		return &item.Version{Seq: uint64(i + 1), Body: bytes.Repeat([]byte{byte(i)}, 500)}
	}
	read := func(i int) bool {
		k := key(i)
		if v := hot.find(1, k, k.ItemHash()); v != nil {
			if v.Seq != uint64(i+1) || !bytes.Equal(v.Body, version(i).Body) {
				t.Fatalf("item %d: sequence %d", i, v.Seq)
			}
			return true
		}
		hot.note(1, k, k.ItemHash(), version(i))
		return false
	}
	often := 0
	const rounds = 4000
	for round := range rounds {
		for i := range 10 {
			if read(i) && round > rounds/2 {
				often++
			}
		}
		for range 10 {
			read(10 + rng.IntN(100_000))
		}
	}
	// Two of ten may share a slot.
	if want := 10 * rounds / 2 * 7 / 10; often < want {
		t.Errorf("%d of %d reads of ten items were held", often, 10*rounds/2)
	}
}

func TestHotConcurrent(t *testing.T) {
	seed := randtest.New(t).Uint64()
	hot := NewRowCache(16 << 10)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(g)))
			for range 5000 {
				n := rng.IntN(1 + rng.IntN(60))
				k := newKey(encodeKey("p"), fmt.Sprint(n))
				file := uint64(n % 3)
				if v := hot.find(file, &k, k.ItemHash()); v == nil {
					hot.note(file, &k, k.ItemHash(), &item.Version{Seq: uint64(n), Body: bytes.Repeat([]byte{byte(n)}, n*10)})
				} else if v.Seq != uint64(n) || len(v.Body) != n*10 {
					t.Errorf("item %d: sequence %d, %d bytes", n, v.Seq, len(v.Body))
				}
			}
		})
	}
	wg.Wait()
	if n := hot.Bytes(); n != hot.held() || n < 0 || n > hot.size {
		t.Errorf("%d bytes, %d in slots", n, hot.held())
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
	r, err := Open(fsys, "a", ReaderOptions{EPK: hashEPK, RowCache: NewRowCache(1 << 20)})
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
