package openfile

import "sync/atomic"

// Verified remembers where in one mapping of a file bytes were verified, for readers that
// verify them once. Bits of another mapping count for nothing. It has a bit for each
// VerifiedLeast bytes, and holds only places at least that long: no two of them have one bit.
type Verified struct{ of atomic.Pointer[verifiedBits] }

// verifiedBits are the bits for one view.
type verifiedBits struct {
	view  *View
	words []atomic.Uint32
}

// VerifiedLeast is the length of the shortest place that Verified remembers.
const VerifiedLeast = 128

// Has says whether the place at off was noted in the view.
func (v *Verified) Has(view *View, off int64) bool {
	bits := v.of.Load()
	if bits == nil || bits.view != view {
		return false
	}
	grain := off / VerifiedLeast
	return bits.words[grain/32].Load()&(1<<(grain%32)) != 0
}

// Note says that the n bytes at off were verified in the view; nil: nowhere. The first note for a view
// allocates a thousandth of the size of the file.
func (v *Verified) Note(view *View, off, n int64) {
	if view == nil || n < VerifiedLeast {
		return
	}
	bits := v.of.Load()
	if bits == nil || bits.view != view {
		bits = &verifiedBits{view, make([]atomic.Uint32, len(view.Data)/VerifiedLeast/32+1)}
		v.of.Store(bits)
	}
	grain := off / VerifiedLeast
	bits.words[grain/32].Or(1 << (grain % 32))
}
