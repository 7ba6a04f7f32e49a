// Package keybounds holds the range of a physical partition as keys, and moves cursors
// within it.
package keybounds

import (
	"bytes"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/partmap"
)

// Bounds are a part of the key space, as keys: lo sorts before every key in it and after
// every key below it; hi sorts after every key in it and before every key above it. No
// item has these keys.
type Bounds struct{ Lo, Hi item.Key }

// New returns the bounds of a range for keys of this many levels.
func New(r partmap.Range, levels int) *Bounds {
	return &Bounds{Lo: At(&r.Min, levels), Hi: At(&r.Max, levels)}
}

// At returns the key that sorts before all keys at or above an EPK and after all
// keys below it. It has no partition key. Its EPK has the full width, padded with zeros.
// A boundary with bytes beyond that width lies behind the key that has the bytes up to there.
func At(at *partmap.EPK, levels int) item.Key {
	epk := make([]byte, levels*item.MaxEPK/item.MaxLevels)
	if n := copy(epk, at.Bytes()); len(bytes.TrimLeft(at.Bytes()[n:], "\x00")) > 0 {
		for i := n - 1; i >= 0; i-- {
			if epk[i]++; epk[i] != 0 {
				break
			}
		}
	}
	return item.Key{Hash: item.HashOf(epk), EPK: epk}
}

// Holds says whether a key lies within the bounds.
func (b *Bounds) Holds(k *item.Key) bool {
	return item.Compare(&b.Lo, k) <= 0 && item.Compare(k, &b.Hi) < 0
}

// Share guesses how much of what a file holds from one key to another lies within the bounds,
// from 0 to 1, as if EPKs lay evenly between those of the two keys.
func (b *Bounds) Share(from, to *item.Key) float64 {
	same := 0 // bytes that all of these EPKs begin with
	for same < min(len(from.EPK), len(to.EPK)) && from.EPK[same] == to.EPK[same] {
		same++
	}
	first, last := item.HashOf(from.EPK[same:]), item.HashOf(to.EPK[same:])
	if first >= last {
		return 1
	}
	at := func(k *item.Key) float64 {
		switch {
		case bytes.Compare(k.EPK, from.EPK) <= 0:
			return 0
		case bytes.Compare(k.EPK, to.EPK) >= 0:
			return 1
		}
		return float64(item.HashOf(k.EPK[same:])-first) / float64(last-first)
	}
	return max(0, at(&b.Hi)-at(&b.Lo))
}

// Start moves a cursor to the first key within the bounds, or to the last one if reverse
// is set. nil bounds hold all keys.
func (b *Bounds) Start(c Positioner, reverse bool) bool {
	switch {
	case b == nil && reverse:
		return c.Last()
	case b == nil:
		return c.First()
	case reverse:
		return c.SeekLT(&b.Hi) && b.Holds(c.Key())
	}
	return c.SeekGE(&b.Lo) && b.Holds(c.Key())
}

// Seek moves a cursor to the first key within the bounds at or after k, in reverse to the last
// one at or before k. If inclusive is false, it skips k itself. nil bounds hold all keys.
func (b *Bounds) Seek(c Positioner, k *item.Key, reverse, inclusive bool) bool {
	switch {
	case b == nil:
		return seek(c, k, reverse, inclusive)
	case !reverse && item.Compare(k, &b.Lo) < 0, reverse && item.Compare(&b.Hi, k) <= 0:
		return b.Start(c, reverse)
	}
	return seek(c, k, reverse, inclusive) && b.Holds(c.Key())
}

// HoldsEntry says whether a logical partition lies within the bounds. epk is the part of
// its EPK that the table of a file has: all but the last 8 bytes. sure is false if these
// bytes are the beginning of a boundary that continues: then only the full key decides.
// nil bounds hold everything.
func (b *Bounds) HoldsEntry(epk []byte) (within, sure bool) {
	if b == nil {
		return true, true
	}
	for _, at := range [][]byte{b.Lo.EPK, b.Hi.EPK} {
		if bytes.HasPrefix(at, epk) && len(bytes.TrimRight(at[len(epk):], "\x00")) > 0 {
			return false, false
		}
	}
	return bytes.Compare(b.Lo.EPK[:len(epk)], epk) <= 0 && bytes.Compare(epk, b.Hi.EPK[:len(epk)]) < 0, true
}

// Positioner is what the cursors of memtables and segments have in common.
type Positioner interface {
	SeekGE(*item.Key) bool
	SeekLT(*item.Key) bool
	Next() bool
	Prev() bool
	First() bool
	Last() bool
	Key() *item.Key
	Version() *item.Version
}

func seek(c Positioner, k *item.Key, reverse, inclusive bool) bool {
	if !reverse {
		ok := c.SeekGE(k)
		if ok && !inclusive && item.Compare(c.Key(), k) == 0 {
			ok = c.Next()
		}
		return ok
	}
	if inclusive {
		// At or before k: on k itself, or else before the first key after it.
		if c.SeekGE(k) {
			return item.Compare(c.Key(), k) == 0 || c.Prev()
		}
		if failing, ok := c.(interface{ Err() error }); ok && failing.Err() != nil {
			return false // SeekLT would clear the error
		}
	}
	return c.SeekLT(k)
}
