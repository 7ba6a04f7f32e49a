package openfile

import "sync/atomic"

// Verified remembers where in one mapping of a file bytes were verified, for readers that
// verify them once. Places of another mapping count for nothing. It has a byte for each
// VerifiedLeast bytes, and holds only places at least that long: no two of them have one byte.
// The byte says where in its part of the file the place begins, so that a shorter place that
// begins in the same part is not taken for it, whatever length that claims to have.
type Verified struct {
	of atomic.Pointer[verifiedPlaces]
}

// verifiedPlaces are the bytes for one view, four in a word.
type verifiedPlaces struct {
	view  *View
	words []atomic.Uint32
}

// VerifiedLeast is the length of the shortest place that Verified remembers.
const VerifiedLeast = 256

// verifiedAt returns the word and the byte in it for the place at off; mark is 0 if no place there
// is remembered.
func verifiedAt(off int64) (word int64, shift int, mark uint32) {
	part := off / VerifiedLeast
	return part / 4, int(part%4) * 8, uint32(off+1) % VerifiedLeast
}

// Has says whether the place at off was noted in the view.
func (v *Verified) Has(view *View, off int64) bool {
	places := v.of.Load()
	if places == nil || places.view != view {
		return false
	}
	word, shift, mark := verifiedAt(off)
	return mark != 0 && places.words[word].Load()>>shift%VerifiedLeast == mark
}

// Forget gives the memory back.
func (v *Verified) Forget() { v.of.Store(nil) }

// Note says that the n bytes at off were verified in the view; nil: nowhere. The first note for a view
// allocates a 256th of the size of the file.
func (v *Verified) Note(view *View, off, n int64) {
	if view == nil || n < VerifiedLeast {
		return
	}
	places := v.of.Load()
	if places == nil || places.view != view {
		places = &verifiedPlaces{view, make([]atomic.Uint32, len(view.Data)/VerifiedLeast/4+1)}
		v.of.Store(places)
	}
	word, shift, mark := verifiedAt(off)
	places.words[word].Or(mark << shift)
}
