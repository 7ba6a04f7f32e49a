//go:build (amd64 || arm64 || ppc64le || mips64le) && !race && !msan && !asan

package index

import (
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"
)

// hasViews says that the library has views on this processor. The checks of pointers
// that come with -race, -msan and -asan end a program in which it makes one: it casts
// the end of a slice to a pointer to a struct that would not fit there.
const hasViews = true

// view returns the posting as a bitmap of the library; nil if its bytes are not
// aligned. The bitmap points into these bytes: it must not be changed, and the caller
// keeps f.all alive, because the collector does not see these pointers.
//
// The library trusts the contents of containers, and some of its methods write as many
// ordinals as a container says that it has. Only two methods are used, which do no harm
// to memory whatever the contents are, once the frame is checked: NextMany of
// ManyIterator does not write beyond its buffer, and AndCardinality writes nothing. It
// may return a wrong number.
func (f *frozen) view() *roaring.Bitmap {
	if uintptr(unsafe.Pointer(unsafe.SliceData(f.all)))%8 != 0 {
		return nil
	}
	b := new(roaring.Bitmap)
	if b.FrozenView(f.all) != nil {
		return nil
	}
	return b
}
