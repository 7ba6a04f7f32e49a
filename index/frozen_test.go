//go:build amd64 || arm64 || ppc64le || arm || mipsle || mips64le

package index

import (
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// checkFrozen reads a bitmap with the library, which knows the format on these
// processors only, and compares it with what it must hold.
func checkFrozen(b []byte, want []uint32) error {
	bm := roaring.New()
	if err := bm.FrozenView(b); err != nil {
		return err
	}
	if !slices.Equal(bm.ToArray(), want) {
		return fmt.Errorf("bitmap %v, want %v", bm, want)
	}
	return nil
}
