package partmap

import (
	"math/big"
)

// Range is the half-open part [Min, Max) of the key space.
type Range struct {
	Min EPK // inclusive
	Max EPK // exclusive
}

// Contains reports whether e lies in the range.
func (r Range) Contains(e *EPK) bool { return r.Min.Compare(e) <= 0 && e.Compare(&r.Max) < 0 }

// Empty reports whether the range contains nothing.
func (r Range) Empty() bool { return r.Min.Compare(&r.Max) >= 0 }

// Overlaps reports whether some EPK lies in both ranges.
func (r Range) Overlaps(o Range) bool {
	return !r.Empty() && !o.Empty() && r.Min.Compare(&o.Max) < 0 && o.Min.Compare(&r.Max) < 0
}

// Common returns what both ranges have; it is empty if that is nothing.
func (r Range) Common(o Range) Range {
	if r.Min.Compare(&o.Min) < 0 {
		r.Min = o.Min
	}
	if o.Max.Compare(&r.Max) < 0 {
		r.Max = o.Max
	}
	return r
}

// Adjacent reports whether one range begins where the other ends, so that
// together they are one range. An empty range is adjacent to nothing.
func (r Range) Adjacent(o Range) bool {
	return !r.Empty() && !o.Empty() && (r.Max.Compare(&o.Min) == 0 || o.Max.Compare(&r.Min) == 0)
}

// String returns the range as [min,max), both in hex.
func (r Range) String() string { return "[" + r.Min.String() + "," + r.Max.String() + ")" }

// topOfLevel is the highest value of one level: 126 bits.
var topOfLevel = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), levelBits), big.NewInt(1))

const levelBits = 8*levelBytes - 2

// EvenBoundaries returns the n-1 inner boundaries of n even partitions, one
// level wide, where the service puts them: the i-th is i * floor((2^126-1)/n).
// There are none for n below 2.
func EvenBoundaries(n int) []EPK {
	if n < 2 {
		return nil
	}
	step := new(big.Int).Div(topOfLevel, big.NewInt(int64(n)))
	at := new(big.Int)
	boundaries := make([]EPK, n-1)
	for i := range boundaries {
		boundaries[i] = epkOfPosition(at.Add(at, step), 1)
	}
	return boundaries
}

// Ranges returns n even ranges that tile the key space; one for n below 2.
func Ranges(n int) []Range { return Tile(EvenBoundaries(n)) }

// Tile returns the ranges between rising boundaries, which tile the key space.
func Tile(boundaries []EPK) []Range {
	ranges := make([]Range, len(boundaries)+1)
	for i, b := range boundaries {
		ranges[i].Max, ranges[i+1].Min = b, b
	}
	ranges[len(boundaries)].Max = MaxEPK()
	return ranges
}

// Midpoint returns the middle of the range, rounded down, as wide as the wider
// boundary; it counts only the positions that keys can have, so the middle of
// everything is 1FFF…. It returns r.Min where nothing lies between.
func Midpoint(r Range) EPK {
	if r.Empty() {
		return r.Min
	}
	levels := max(1, (int(max(r.Min.n, r.Max.n))+levelBytes-1)/levelBytes)
	lo, hi := r.Min.position(levels), r.Max.position(levels)
	mid := epkOfPosition(lo.Rsh(lo.Add(lo, hi), 1), levels)
	if !r.Contains(&mid) || mid.Compare(&r.Min) == 0 {
		return r.Min
	}
	return mid
}

// position numbers the EPKs of this many levels that keys can have, 126 bits a
// level. An EPK between two of them takes the lower one.
func (e *EPK) position(levels int) *big.Int {
	pos, level := new(big.Int), new(big.Int)
	above := false // some level is above all keys, so those after it are too
	for i := range levels {
		b := e.b[i*levelBytes:][:levelBytes]
		above = above || b[0] > 0x3F
		if above {
			level.Set(topOfLevel)
		} else {
			level.SetBytes(b)
		}
		pos.Or(pos.Lsh(pos, levelBits), level)
	}
	return pos
}

// epkOfPosition is the inverse of position.
func epkOfPosition(pos *big.Int, levels int) (e EPK) {
	e.n = uint8(levels * levelBytes)
	rest, level := new(big.Int).Set(pos), new(big.Int)
	for i := levels - 1; i >= 0; i-- {
		level.And(rest, topOfLevel).FillBytes(e.b[i*levelBytes:][:levelBytes])
		rest.Rsh(rest, levelBits)
	}
	return e
}
