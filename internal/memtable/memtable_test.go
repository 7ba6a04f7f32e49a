package memtable

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/cleavestore/cleave/internal/arena"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/randtest"
)

func TestEmpty(t *testing.T) {
	table := newTable(t, 1000)
	k := makeKey(1, "p", "i")
	var v item.Version
	c := table.Cursor(math.MaxUint64)
	if table.Get(k.Lookup(), 1, &v) || table.Latest(k.Lookup(), &v) || table.Walk(9).Next() || c.First() || c.Last() ||
		c.SeekGE(&k) || c.SeekLT(&k) || c.Next() || c.Prev() || c.Valid() {
		t.Fatal("an empty table shows something")
	}
	if table.Bytes() != 0 || table.Reserved() != 0 || table.Items() != 0 || table.MinSeq() != 0 || table.MaxSeq() != 0 {
		t.Fatal("an empty table owns something")
	}
}

// TestSmall checks that a trickling partition with generous expectations stays
// within the first chunk.
func TestSmall(t *testing.T) {
	table := newTable(t, 1<<20)
	for i, k := range makeKeys(80, 1) {
		mustPut(t, table, &k, &item.Version{Seq: uint64(i + 1), Body: make([]byte, 100)})
	}
	if table.Reserved() > 64<<10 {
		t.Fatalf("80 items hold %d bytes", table.Reserved())
	}
}

func TestReplayIsIdempotent(t *testing.T) {
	table := newTable(t, 10)
	k := makeKey(7, "p", "i")
	put := func(seq uint64, body string) {
		mustPut(t, table, &k, &item.Version{Seq: seq, Body: []byte(body)})
	}
	put(5, "five")
	put(8, "eight")
	before := table.Bytes()
	put(5, "again")
	put(8, "again")
	put(3, "late")
	if table.Versions() != 2 || table.Bytes() != before || table.MinSeq() != 5 || table.MaxSeq() != 8 {
		t.Fatalf("%d versions, %d bytes (%d before), sequences %d to %d",
			table.Versions(), table.Bytes(), before, table.MinSeq(), table.MaxSeq())
	}
	var v item.Version
	for maxSeq, want := range []string{5: "five", 6: "five", 7: "five", 8: "eight", 9: "eight"} {
		if ok := table.Get(k.Lookup(), uint64(maxSeq), &v); ok != (want != "") || ok && string(v.Body) != want {
			t.Errorf("Get at %d: %v %q, want %q", maxSeq, ok, v.Body, want)
		}
	}
}

func TestPutCopies(t *testing.T) {
	table := newTable(t, 10)
	k, body := makeKey(7, "pk", "id"), []byte("body")
	mustPut(t, table, &k, &item.Version{Seq: 1, Body: body})
	clear(body)
	clear(k.EPK)
	clear(k.PK)
	clear(k.ID)
	k = makeKey(7, "pk", "id")
	var v item.Version
	if !table.Latest(k.Lookup(), &v) || string(v.Body) != "body" {
		t.Fatalf("body is %q", v.Body)
	}
}

func TestLargeBodies(t *testing.T) {
	table := newTable(t, 100)
	keys := makeKeys(20, 1)
	body := func(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, i*220_000) }
	for i := range keys {
		mustPut(t, table, &keys[i], &item.Version{Seq: uint64(2*i + 1), Body: body(i)})
		mustPut(t, table, &keys[i], &item.Version{Seq: uint64(2*i + 2), Body: body(len(keys) - i)})
	}
	var v item.Version
	for i := range keys {
		if !table.Get(keys[i].Lookup(), uint64(2*i+1), &v) || !bytes.Equal(v.Body, body(i)) {
			t.Fatalf("first version of key %d is wrong", i)
		}
		if !table.Latest(keys[i].Lookup(), &v) || !bytes.Equal(v.Body, body(len(keys)-i)) {
			t.Fatalf("second version of key %d is wrong", i)
		}
	}
	if table.Reserved() > 2*table.Bytes() {
		t.Errorf("%d bytes hold %d reserved", table.Bytes(), table.Reserved())
	}
}

// TestLargeBodiesKeepTheChunk checks that bodies with chunks of their own do not
// cut short the chunk that small ones fill.
func TestLargeBodiesKeepTheChunk(t *testing.T) {
	table := newTable(t, 100)
	body := make([]byte, arena.MaxChunkBytes)
	for i, k := range makeKeys(10, 1) {
		mustPut(t, table, &k, &item.Version{Seq: uint64(2*i + 1), Body: body})
		mustPut(t, table, &k, &item.Version{Seq: uint64(2*i + 2)})
	}
	if want := int64(10*2*arena.MaxChunkBytes + max(arena.MinChunkBytes, os.Getpagesize())); table.Reserved() != want {
		t.Fatalf("%d bytes reserved, want %d", table.Reserved(), want)
	}
}

// TestFull fills a pool to its limit: a refused Put changes nothing, and force
// goes past the limit.
func TestFull(t *testing.T) {
	const limit = 1 << 20
	pool := arena.NewPool(limit)
	table := New(pool, Range{}, 100, item.NewSeed())
	keys := makeKeys(10_000, 3)
	body := make([]byte, 500)
	put := func(i int, force bool) error {
		return table.Put(&keys[i], &item.Version{Seq: uint64(i + 1), Body: body}, force)
	}
	n := 0
	var err error
	for ; err == nil; n++ {
		err = put(n, false)
	}
	n--
	if !errors.Is(err, arena.ErrFull) {
		t.Fatalf("Put into a full pool: %v", err)
	}
	if n < limit/2000 {
		t.Fatalf("full after %d items", n)
	}
	bytesBefore := int64(0)
	for i := range 100 {
		if err := put(n, false); !errors.Is(err, arena.ErrFull) {
			t.Fatalf("Put again: %v", err)
		}
		if i == 0 { // the first repetitions may still complete a head
			bytesBefore = table.Bytes()
		}
	}
	over := item.Version{Seq: 1 << 40, Body: make([]byte, limit)}
	if err := table.Put(&keys[0], &over, false); !errors.Is(err, arena.ErrFull) {
		t.Fatalf("overwriting with a large body: %v", err)
	}
	if table.Bytes() != bytesBefore || table.Items() != int64(n) || table.Versions() != int64(n) ||
		table.MaxSeq() != uint64(n) || table.RawBytes() != int64(n*len(body)) || table.Reserved() > limit {
		t.Fatalf("refused puts changed the table: %d items, %d bytes", table.Items(), table.Bytes())
	}
	var v item.Version
	if table.Latest(keys[n].Lookup(), &v) || !table.Latest(keys[0].Lookup(), &v) || v.Seq != 1 {
		t.Fatal("a refused version shows")
	}
	c, count := table.Cursor(math.MaxUint64), 0
	for ok := c.First(); ok; ok = c.Next() {
		count++
	}
	if count != n {
		t.Fatalf("cursor shows %d of %d items", count, n)
	}
	for i := n; i < len(keys); i++ {
		if err := put(i, true); err != nil {
			t.Fatalf("forced Put: %v", err)
		}
	}
	if table.Items() != int64(len(keys)) {
		t.Fatalf("%d items after forcing", table.Items())
	}

	table.Release()
	table.Release()
	if table.Reserved() != 0 || table.Bytes() != 0 || table.Items() != 0 || table.Latest(keys[0].Lookup(), &v) {
		t.Fatal("a released table owns something")
	}
	// The chunks come back, dirty, and serve another table.
	second := New(pool, Range{}, 100, item.NewSeed())
	defer second.Release()
	for i := range n {
		mustPut(t, second, &keys[i], &item.Version{Seq: uint64(i + 1), Body: body})
	}
	for i := range n {
		if !second.Latest(keys[i].Lookup(), &v) || v.Seq != uint64(i+1) || !bytes.Equal(v.Body, body) {
			t.Fatalf("item %d is wrong in a reused chunk", i)
		}
	}
}

func TestTooLarge(t *testing.T) {
	table := newTable(t, 1)
	for _, k := range []item.Key{
		{EPK: make([]byte, item.MaxEPK+1)},
		{PK: make([]byte, item.MaxPK+1)},
		{ID: make([]byte, item.MaxID+1)},
	} {
		if err := table.Put(&k, &item.Version{Seq: 1}, true); err == nil {
			t.Error("a key over the limit was taken")
		}
	}
	largest := item.Key{EPK: make([]byte, item.MaxEPK), PK: make([]byte, item.MaxPK), ID: make([]byte, item.MaxID)}
	smallest := item.Key{}
	for i, k := range []*item.Key{&largest, &smallest} {
		mustPut(t, table, k, &item.Version{Seq: uint64(i + 1)})
		var v item.Version
		if !table.Latest(k.Lookup(), &v) || v.Seq != uint64(i+1) {
			t.Errorf("key %d is lost", i)
		}
	}
}

func TestBuckets(t *testing.T) {
	rnd := randtest.New(t)
	for range 2000 {
		r := Range{Lo: rnd.Uint64() >> rnd.IntN(64), Hi: rnd.Uint64() >> rnd.IntN(64)}
		if rnd.IntN(4) == 0 {
			r.Hi = 0
		}
		b := makeBuckets(r, rnd.IntN(1<<19))
		hashes := []uint64{0, math.MaxUint64, b.lo, b.last, b.lo - 1, b.last + 1}
		for range 20 {
			hashes = append(hashes, rnd.Uint64(), b.lo+rnd.Uint64()>>rnd.IntN(64))
		}
		for _, x := range hashes {
			i := b.of(x)
			if i < 0 || i >= b.count {
				t.Fatalf("%+v: bucket %d of %d for %x", r, i, b.count, x)
			}
			for _, y := range hashes {
				if x < y && i > b.of(y) {
					t.Fatalf("%+v: buckets of %x and %x are out of order", r, x, y)
				}
			}
		}
		if span := b.last - b.lo; span > 1<<20 && b.of(b.last) < b.count-1 {
			t.Fatalf("%+v: last bucket %d of %d", r, b.of(b.last), b.count)
		}
	}
}

// TestAllocationFree checks what hot paths take from the Go heap: nothing.
func TestAllocationFree(t *testing.T) {
	table := newTable(t, 10_000)
	keys := makeKeys(10_000, 8)
	body := make([]byte, 100)
	seq := uint64(0)
	put := func() {
		seq++
		v := item.Version{Seq: seq, Body: body}
		if err := table.Put(&keys[int(seq)%len(keys)], &v, false); err != nil {
			t.Error(err)
		}
	}
	for range keys {
		put()
	}
	var c Cursor
	var v item.Version
	for name, f := range map[string]func(){
		"Put": put,
		"Get": func() { table.Get(keys[77].Lookup(), seq, &v) },
		"Cursor": func() {
			c.Reset(table, seq)
			for ok := c.SeekGE(&keys[500]); ok && c.Key().Hash == keys[500].Hash; ok = c.Next() {
				v = *c.Version()
			}
			c.SeekLT(&keys[9])
			c.Prev()
		},
	} {
		if n := testing.AllocsPerRun(1000, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func Example() {
	table := New(arena.NewPool(8<<20), Range{}, 1000, item.NewSeed())
	defer table.Release()
	k := makeKey(42, "pk", "id")
	_ = table.Put(&k, &item.Version{Seq: 1, Body: []byte(`{"id":"id"}`)}, false)
	_ = table.Put(&k, &item.Version{Seq: 2, Flags: item.Tombstone}, false)
	var v item.Version
	fmt.Println(table.Get(k.Lookup(), 1, &v), string(v.Body))
	fmt.Println(table.Get(k.Lookup(), 2, &v), v.Deleted())
	// Output:
	// true {"id":"id"}
	// true true
}
