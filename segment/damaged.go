package segment

import (
	"math"

	"github.com/cleavestore/cleave/internal/item"
)

// Damaged returns a reader for a file that cannot be opened: each read through it
// returns the error why. It shows one version, of a key from lo to hi, that cannot be
// read either.
func Damaged(name string, why error, lo, hi item.Key) *Reader {
	r := &Reader{name: name, number: readers.Add(1)}
	r.file.Break(name, why)
	r.props = Properties{Items: 1, Keys: 1, Groups: 1, MaxSeq: item.MaxSeq, MaxModified: math.MaxInt64, Min: lo, Max: hi}
	r.refs.Store(1)
	return r
}

// Broken returns why the file could not be opened, nil if it was.
func (r *Reader) Broken() error { return r.file.Broken() }
