package lsm

import (
	"math"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/cleavestore/cleave/internal/fault"
	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/manifest"
	"github.com/cleavestore/cleave/segment"
)

// TestMetNoError allocates nothing for a lookup that meets no error.
func TestMetNoError(t *testing.T) {
	f := new(File)
	allocs := testing.AllocsPerRun(100, func() {
		if err := f.Met(nil); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// TestForgedPart: what a reference estimates of its file is no more than the file has.
func TestForgedPart(t *testing.T) {
	f := &File{
		Reader: segment.Damaged("a.seg", nil, item.Key{}, item.Key{}),
		Ref:    manifest.File{Size: 1000, Part: &manifest.Part{Items: math.MaxUint64, RawBytes: math.MaxUint64, Bytes: math.MaxInt64}},
	}
	if f.ItemsWithin() != 1 || f.RawBytes() != 0 || f.SizeWithin() != 1000 || f.Foreign() != 0 {
		t.Errorf("%d items, %d bytes of documents, %d of the file, %d foreign", f.ItemsWithin(), f.RawBytes(), f.SizeWithin(), f.Foreign())
	}
}

// TestInheritDamage: a reference that takes over that its file is set aside knows why, also if the damage is met at that
// moment.
func TestInheritDamage(t *testing.T) {
	damage := fault.Corrupt("a.seg", 0, "damaged")
	from, children := make([]File, 4096), make([]File, 8)
	var at atomic.Int64
	go func() {
		for i := range from {
			for at.Load() < int64(i) {
				runtime.Gosched()
			}
			_ = from[i].refused(damage)
		}
	}()
	for i := range from {
		at.Store(int64(i))
		for n := 0; ; n++ {
			child := &children[n%len(children)]
			if child.inheritDamage(&from[i]); child.Aside.Load() {
				if child.Damage.Load() == nil {
					t.Fatalf("reference %d is set aside without a reason", i)
				}
				break
			}
			if n%1000 == 0 {
				runtime.Gosched()
			}
		}
	}
}
