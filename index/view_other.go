//go:build !(amd64 || arm64 || ppc64le || mips64le) || race || msan || asan

package index

import "github.com/RoaringBitmap/roaring/v2"

// hasViews says that the library has views here.
const hasViews = false

// view returns nil.
func (f *frozen) view() *roaring.Bitmap { return nil }
