package lsm

import (
	"math"
	"testing"

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
