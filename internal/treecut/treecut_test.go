package treecut

import (
	"errors"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lsm"
	"github.com/cleavestore/cleave/internal/lsmtest"
	"github.com/cleavestore/cleave/partmap"
	"github.com/cleavestore/cleave/splitter"
)

// TestChoose: memtables of two trees, active and frozen, are halved as one, and a single
// logical partition is not cut.
func TestChoose(t *testing.T) {
	s := lsmtest.New(t, 16<<20)
	trees := []*lsm.Tree{s.Tree(), s.Tree()}
	all := partmap.Range{Min: partmap.MinEPK(), Max: partmap.MaxEPK()}
	for i := range 100 {
		s.Put(trees[0], partmap.String("one"), string(rune('a'+i)), item.Version{Body: make([]byte, 100)})
	}
	if _, err := Choose(all, trees); !errors.Is(err, splitter.ErrRefused) {
		t.Fatalf("one logical partition: %v", err)
	}
	for i := range 1000 {
		s.Put(trees[i%2], partmap.Number(float64(i)), "x", item.Version{Body: make([]byte, 1000)})
		if i == 500 {
			s.Freeze(trees[1])
		}
	}
	c, err := Choose(all, trees)
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(100*(100+itemWeight) + 1000*(1000+itemWeight))
	if c.Left+c.Right != sum || min(c.Left, c.Right) < sum*2/5 {
		t.Errorf("cut into %d and %d bytes of %d", c.Left, c.Right, sum)
	}
	one := partmap.String("one").EPK()
	half, err := Choose(partmap.Range{Min: partmap.MinEPK(), Max: c.At}, trees)
	if err != nil || half.Left+half.Right != c.Left || half.At.Compare(&c.At) >= 0 {
		t.Errorf("the lower half again: %+v, %v; one is at %v", half, err, one)
	}
}
