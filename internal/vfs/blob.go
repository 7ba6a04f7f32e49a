package vfs

import (
	"bytes"
	"slices"
)

// blob is the content of a file. Clones share the bytes until one of them writes.
//
// Zeros behind all else take no memory: a log is made full of them, and most tests write little of it.
type blob struct {
	b      []byte // what the file begins with
	size   int64  // of the file; zeros follow b up to it
	shared bool
}

func newBlob(b []byte) blob { return blob{b: b, size: int64(len(b))} }

// share returns a blob with the same bytes.
func (x *blob) share() blob {
	x.shared = true
	return *x
}

// resize sets the size. Where the file grows it has zeros.
func (x *blob) resize(n int64) {
	x.b, x.size = x.b[:min(int64(len(x.b)), n)], n
}

// readAt reads what there is at off, and returns the number of bytes.
func (x *blob) readAt(p []byte, off int64) int {
	p = p[:max(0, min(int64(len(p)), x.size-off))]
	clear(p[copy(p, x.b[min(off, int64(len(x.b))):]):])
	return len(p)
}

// bytes returns a copy of the content.
func (x *blob) bytes() []byte {
	b := make([]byte, x.size)
	copy(b, x.b)
	return b
}

// writeAt writes p at off. The file grows if need be.
func (x *blob) writeAt(p []byte, off int64) {
	end := off + int64(len(p))
	x.size = max(x.size, end)
	if off >= int64(len(x.b)) && zero(p) {
		return
	}
	if x.shared {
		x.b, x.shared = slices.Clone(x.b), false
	}
	if have := int64(len(x.b)); end > have {
		x.b = append(x.b, make([]byte, end-have)...)
	}
	copy(x.b[off:], p)
}

// sectorsAt returns a copy of the sectors from first to end.
func (x *blob) sectorsAt(first, end int64) []sector {
	out := make([]sector, 0, (end-first+sectorBytes-1)/sectorBytes)
	var image []byte // nil: zeros
	if first < int64(len(x.b)) {
		image = make([]byte, end-first)
		x.readAt(image, first)
	}
	for at := first; at < end; at += sectorBytes {
		data := zeroSector[:min(sectorBytes, end-at)]
		if image != nil {
			data = image[at-first:][:len(data)]
		}
		out = append(out, sector{at, data})
	}
	return out
}

// zeroSector is never written to.
var zeroSector [sectorBytes]byte

func zero(p []byte) bool { return bytes.Count(p, zeroSector[:1]) == len(p) }
