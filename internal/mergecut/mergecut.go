// Package mergecut finds how far each of several parts must be read, so that together they
// give the first rows of all.
//
// A part can tell, without reading rows, how many it has with which sort keys: runs, in the
// order of their keys. It need not tell of all its rows. Cut merges the runs of all parts and
// says behind which key no row is needed.
//
// # Invariants
//
//  1. The parts have as many rows as are wanted before the end of the cut, if the runs are true.
//  2. No end before that has this property, as far as runs tell the keys of their rows.
//  3. A part whose walk ends before the cut may have rows there of which it has not told. If no
//     part is Short, the end is that of a merge of all rows.
package mergecut

import (
	"bytes"
	"cmp"
	"slices"
)

// Run is a number of rows of a part.
type Run struct {
	Key []byte // what their sort keys begin with
	N   int
	// Parted says that of the rows whose sort keys begin with Key, those of one part come before
	// all those of the part that follows it. Else they lie among each other.
	Parted bool
}

// Walk is what a part tells of its rows.
type Walk struct {
	Runs []Run
	// End is the sort key from which on the part does not tell of its rows; nil: it has told of all.
	End []byte
	// Behind, written behind the Key of a run that is Parted, gives a sort key behind those of
	// its rows, and not behind those of the parts that follow.
	Behind []byte
}

// Cut says how far parts must be read.
type Cut struct {
	End  []byte // rows from this sort key on are not needed; nil: all are
	Rows []int  // how many rows before End each part has told of
}

// run is a run with the number of its part.
type run struct {
	Run
	part  int
	above []byte // if the run is Parted, its Key; else a key above those of all its rows
	late  int    // 1: the rows of the run lie at above, or behind it; 0: before it
}

// Of returns the cut at which parts, given in their order, have as many rows as are wanted.
func Of(parts []Walk, want int) Cut {
	var runs []run
	for i := range parts {
		for _, r := range parts[i].Runs {
			if r.Parted {
				runs = append(runs, run{r, i, r.Key, 1})
			} else {
				runs = append(runs, run{r, i, above(r.Key), 0})
			}
		}
	}
	slices.SortFunc(runs, func(a, b run) int {
		return cmp.Or(bytes.Compare(a.above, b.above), a.late-b.late, a.part-b.part)
	})
	c := Cut{Rows: make([]int, len(parts))}
	for i := range runs {
		if want -= runs[i].N; want > 0 {
			continue
		}
		last := &runs[i]
		if c.End = last.above; last.Parted {
			c.End = append(bytes.Clone(last.Key), parts[last.part].Behind...)
		}
		break
	}
	for i := range runs {
		r := &runs[i]
		if c.End == nil || bytes.Compare(r.start(parts), c.End) < 0 {
			c.Rows[r.part] += r.N
		}
	}
	return c
}

// start returns a key that is not above those of the rows of the run.
func (r *run) start(parts []Walk) []byte {
	if !r.Parted || r.part == 0 {
		return r.Key
	}
	return append(bytes.Clone(r.Key), parts[r.part-1].Behind...)
}

// Short says that a part may have rows before the end of the cut of which its walk does not tell.
func (c *Cut) Short(w *Walk) bool {
	return w.End != nil && (c.End == nil || bytes.Compare(w.End, c.End) < 0)
}

// above returns the least key above all keys that begin with a prefix. If the prefix has no
// other bytes than 0xFF there is none: then it returns one above those that orders of up to 64
// paths give.
func above(prefix []byte) []byte {
	n := len(prefix)
	for n > 0 && prefix[n-1] == 0xFF {
		n--
	}
	if n == 0 {
		return bytes.Repeat([]byte{0xFF}, len(prefix)+64)
	}
	key := bytes.Clone(prefix[:n])
	key[n-1]++
	return key
}
