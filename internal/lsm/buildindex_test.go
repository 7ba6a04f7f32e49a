package lsm

import (
	"testing"

	"github.com/cleavestore/cleave/index"
	"github.com/cleavestore/cleave/internal/deletion"
	"github.com/cleavestore/cleave/internal/manifest"
)

// TestCarriedBounded: an output remembers where the versions of its inputs have gone for as much memory as an index may
// take. What newer sources overwrite in its other files is not known then, and not taken for nothing.
func TestCarriedBounded(t *testing.T) {
	policy, err := index.Compile(index.Policy{Include: []string{"/*"}})
	if err != nil {
		t.Fatal(err)
	}
	old := &File{Ref: manifest.File{Number: 1}}
	o := &output{t: &Tree{Env: &Env{IndexBytes: 40}}}
	var written []*File
	for number := uint64(2); number < 5; number++ {
		o.index.builder = index.NewBuilder(policy, 0, nil)
		o.index.taken = []*takenIndex{{file: old, number: number, remap: index.Remap{New: make([]uint32, 8)}}}
		o.endIndex()
		written = append(written, &File{Ref: manifest.File{Number: number}})
	}
	if n := len(o.index.carried); n != 1 {
		t.Errorf("%d files are remembered", n)
	}
	c := vectorCache{loaded: true, lists: map[any]*deletion.Vector{uint64(1): {Ordinals: []uint32{3}, Seqs: []uint64{9}}}}
	c.carry(nil, written, o.index.carried)
	if known := c.lists[uint64(2)]; known == nil || len(known.Ordinals) != 1 {
		t.Errorf("in the file that is remembered %v is overwritten", known)
	}
	if c.lists[uint64(3)] != nil || c.lists[uint64(4)] != nil {
		t.Error("what is overwritten in the other files is said to be known")
	}
}
