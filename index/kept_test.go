package index

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

func question(n uint64) *Question {
	var q Question
	binary.LittleEndian.PutUint64(q[:], n)
	return &q
}

// TestKept: what is kept is found again, for its index and question only, and what was
// spent adds up.
func TestKept(t *testing.T) {
	var k Kept
	a, b := &Reader{info: Info{Items: 200}}, &Reader{info: Info{Items: 200}}
	var set Set
	set.Reset(0, 200)
	set.Add(7)
	if full := k.Keep(a, question(1), &set); full {
		t.Error("a set of one is full")
	}
	set.Fill()
	if full := k.Keep(a, question(2), &set); !full {
		t.Error("a set of all is not full")
	}
	set.Reset(0, 200)
	got, full, spent := k.Set(a, question(1))
	if got == nil || full || spent != 0 || got.Count() != 1 || !got.Contains(7) {
		t.Errorf("%v %v %d", got, full, spent)
	}
	if got, full, _ := k.Set(a, question(2)); got == nil || !full {
		t.Errorf("%v %v", got, full)
	}
	for _, q := range []uint64{1, 2} {
		if got, _, _ := k.Set(b, question(q)); got != nil {
			t.Error("the set of another index")
		}
	}
	k.Spend(b, question(1), 3)
	k.Spend(b, question(1), 4)
	if got, _, spent := k.Set(b, question(1)); got != nil || spent != 7 {
		t.Errorf("%v %d", got, spent)
	}
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
}

// TestKeptBounds: the memory stays within its bound, the newest are kept, and a set that
// is too large is not.
func TestKeptBounds(t *testing.T) {
	var k Kept
	const items = 1 << 20 // 128 KiB each
	r := &Reader{info: Info{Items: items}}
	var set Set
	for i := range uint64(300) {
		set.Reset(0, items)
		set.Add(uint32(i))
		k.Keep(r, question(i), &set)
		k.Spend(r, question(i), 1)
		if k.Bytes() > KeptBytes {
			t.Fatalf("%d bytes after %d sets", k.Bytes(), i+1)
		}
		if got, _, _ := k.Set(r, question(i)); got == nil || !got.Contains(uint32(i)) {
			t.Fatalf("set %d is gone at once", i)
		}
	}
	if got, _, _ := k.Set(r, question(0)); got != nil {
		t.Error("the oldest is still there")
	}
	for i := range uint64(randtest.Lone(200_000)) {
		k.Spend(r, question(1000+i), 1)
	}
	if k.Bytes() > KeptBytes {
		t.Errorf("%d bytes of notes", k.Bytes())
	}
	large := &Reader{info: Info{Items: KeptBytes * 8}}
	set.Reset(0, KeptBytes*8)
	k.Keep(large, question(1), &set)
	if got, _, _ := k.Set(large, question(1)); got != nil {
		t.Error("a set as large as the bound is kept")
	}
}

// TestKeptLetsGo: what is kept of an index does not keep it in memory, and goes first.
func TestKeptLetsGo(t *testing.T) {
	var k Kept
	func() {
		gone := &Reader{info: Info{Items: 1 << 20}}
		var set Set
		set.Reset(0, 1<<20)
		for i := range uint64(8) {
			k.Keep(gone, question(i), &set)
		}
	}()
	runtime.GC()
	r := &Reader{info: Info{Items: 1 << 22}}
	var set Set
	set.Reset(0, 1<<22)
	for i := range uint64(KeptBytes>>19 - 2) { // of half a MiB each
		k.Keep(r, question(i), &set)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.entries {
		if key.of.Value() == nil {
			t.Error("an entry of the index that is gone, after others had to go")
		}
	}
	runtime.KeepAlive(r)
}
