package index

import (
	"slices"
	"testing"

	"github.com/cleavestore/cleave/internal/randtest"
)

// TestCursorMoves moves one cursor about as a list says where it must come to: to keys that are
// terms and to others, by steps in both directions, within a block and from block to block.
func TestCursorMoves(t *testing.T) {
	rng := randtest.New(t)
	g := &generator{Rand: rng}
	c := mustCompile(t, testPolicies[0])
	for range 6 {
		docs := make([]string, 1+rng.IntN(1500))
		for o := range docs {
			docs[o] = g.document()
		}
		r := mustOpen(t, build(t, c, docs, 0, newTempFiles()))
		var keys []string
		cur := r.Cursor()
		for ok := cur.First(); ok; ok = cur.Next() {
			keys = append(keys, string(cur.Key()))
		}
		if len(keys) == 0 {
			continue
		}
		postings := make(map[string]int)
		for ok := cur.First(); ok; ok = cur.Next() {
			postings[string(cur.Key())] = cur.Posting().Len()
		}
		at, near := -1, rng.IntN(len(keys))
		for step := range randtest.Lone(4000) {
			var ok bool
			was := at
			switch move := rng.IntN(8); move {
			case 0:
				ok, at = cur.First(), 0
			case 1, 2:
				if at < 0 {
					continue
				}
				if ok = cur.Next(); at+1 < len(keys) {
					at++
				} else {
					at = -1
				}
			case 3, 4:
				if at < 0 {
					continue
				}
				ok = cur.Prev()
				at--
			default:
				if rng.IntN(10) == 0 {
					near = rng.IntN(len(keys))
				}
				key := []byte(keys[min(len(keys)-1, near+rng.IntN(20))])
				switch rng.IntN(3) {
				case 0:
					key = append(key, byte(rng.IntN(3)))
				case 1:
					key = key[:rng.IntN(len(key)+1)]
				}
				i, _ := slices.BinarySearch(keys, string(key))
				if move < 7 {
					if ok, at = cur.Seek(key), i; i == len(keys) {
						at = -1
					}
				} else {
					ok, at = cur.SeekBefore(key), i-1
				}
			}
			if ok != (at >= 0) || cur.Err() != nil || ok != cur.Valid() {
				t.Fatalf("step %d from %d to %d of %d: %t, valid %t, %v", step, was, at, len(keys), ok, cur.Valid(), cur.Err())
			}
			if ok && (string(cur.Key()) != keys[at] || cur.Posting().Len() != postings[keys[at]]) {
				t.Fatalf("step %d from %d: %q, want %q", step, was, cur.Key(), keys[at])
			}
		}
	}
}
