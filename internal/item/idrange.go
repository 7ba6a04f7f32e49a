package item

// IDRange is a range of ids in the order of their bytes. The zero IDRange holds every id.
type IDRange struct {
	Lo, Hi         string // "": there is no bound on that side
	LoOpen, HiOpen bool   // the bound itself does not belong to the range
}

// From leaves out the ids before lo and, if open is set, lo itself. An empty lo leaves out
// nothing.
func (r *IDRange) From(lo string, open bool) {
	if lo > r.Lo || lo == r.Lo && lo != "" && open {
		r.Lo, r.LoOpen = lo, open
	}
}

// To leaves out the ids after hi and, if open is set, hi itself. An empty hi leaves out
// nothing.
func (r *IDRange) To(hi string, open bool) {
	if hi != "" && (r.Hi == "" || hi < r.Hi || hi == r.Hi && open) {
		r.Hi, r.HiOpen = hi, open
	}
}

// Prefix leaves out the ids that do not begin with prefix.
func (r *IDRange) Prefix(prefix string) {
	r.From(prefix, false)
	// The first text after all that begin with the prefix: its last byte that can be raised
	// is, and those behind it are cut off.
	for n := len(prefix); n > 0; n-- {
		if last := prefix[n-1]; last < 0xFF {
			r.To(prefix[:n-1]+string([]byte{last + 1}), true)
			return
		}
	}
}

// Before says whether an id lies before the range.
func (r *IDRange) Before(id []byte) bool {
	return r.Lo != "" && (string(id) < r.Lo || r.LoOpen && string(id) == r.Lo)
}

// After says whether an id lies after the range.
func (r *IDRange) After(id []byte) bool {
	return r.Hi != "" && (string(id) > r.Hi || r.HiOpen && string(id) == r.Hi)
}

// Holds says whether an id belongs to the range.
func (r *IDRange) Holds(id []byte) bool { return !r.Before(id) && !r.After(id) }
