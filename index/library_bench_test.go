//go:build amd64 || arm64 || ppc64le || mips64le

package index

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

// The benchmarks of this file measure code of this package (own) against the library, on
// the same ordinals of a million. What is a Set to own is a bitmap to the library. A view
// is made anew each time, as queries do, and its contents are not checked.

const benchItems = 1_000_000

var benchShapes = []struct {
	name string
	has  func(rng *rand.Rand, o uint32) bool
}{
	{"sparse", func(rng *rand.Rand, _ uint32) bool { return rng.IntN(500) == 0 }},
	{"medium", func(rng *rand.Rand, _ uint32) bool { return rng.IntN(50) == 0 }},
	{"dense", func(rng *rand.Rand, _ uint32) bool { return rng.IntN(4) == 0 }},
	{"runs", func(_ *rand.Rand, o uint32) bool { return o/100%4 == 0 }},
}

// benchRanges are the whole file and a part of it.
var benchRanges = []struct {
	name   string
	lo, hi uint32
}{{"whole", 0, benchItems}, {"part", 300_001, 400_001}}

// drawn returns the ordinals from lo to hi of a shape.
func drawn(shape int, seed uint64, lo, hi uint32) (ordinals []uint32) {
	rng := rand.New(rand.NewPCG(seed, 1))
	shift := rng.Uint32N(100)
	for o := range uint32(benchItems) {
		if benchShapes[shape].has(rng, o+shift) && o >= lo && o < hi {
			ordinals = append(ordinals, o)
		}
	}
	return ordinals
}

func drawnPosting(b *testing.B, shape int, seed uint64) *Posting {
	p := storedPosting(b, drawn(shape, seed, 0, benchItems))
	return &p
}

func setOf(lo, hi uint32, ordinals []uint32) *Set {
	var s Set
	s.Reset(lo, hi)
	for _, o := range ordinals {
		s.Add(o)
	}
	return &s
}

func bitmapOf(ordinals []uint32) *roaring.Bitmap {
	m := roaring.BitmapOf(ordinals...)
	m.RunOptimize()
	return m
}

func intervalOf(lo, hi uint32) *roaring.Bitmap {
	m := roaring.New()
	m.AddRange(uint64(lo), uint64(hi))
	return m
}

// viewOf returns a posting as a view of the library.
func viewOf(b *testing.B, p *Posting) *roaring.Bitmap {
	data, err := p.r.view(p.at, p.size)
	if err != nil {
		b.Fatal(err)
	}
	f := frozen{all: data}
	v := f.view()
	if v == nil {
		b.Skip("the library has no views here")
	}
	return v
}

func versus(b *testing.B, name string, own, library func(b *testing.B)) {
	run := func(whose string, fn func(b *testing.B)) {
		b.Run(name+"/"+whose, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fn(b)
			}
		})
	}
	run("own", own)
	run("library", library)
}

func must(b *testing.B, err error) {
	if err != nil {
		b.Fatal(err)
	}
}

// frozenByLibrary is what frozenWriter.append does.
func frozenByLibrary(b *testing.B, dst []byte, m *roaring.Bitmap) []byte {
	m.RunOptimize()
	n := int(m.GetFrozenSizeInBytes())
	dst = slices.Grow(dst[:0], n)[:n]
	_, err := m.FreezeTo(dst)
	must(b, err)
	return dst
}

func BenchmarkWriteBitmap(b *testing.B) {
	for shape, s := range benchShapes {
		ordinals := drawn(shape, 1, 0, benchItems)
		var w frozenWriter
		var out []byte
		versus(b, s.name, func(*testing.B) { out = w.append(out[:0], ordinals) },
			func(b *testing.B) { out = frozenByLibrary(b, out, roaring.BitmapOf(ordinals...)) })
		b.Run(s.name+"/library-of-bits", func(b *testing.B) {
			for b.Loop() {
				out = frozenByLibrary(b, out, roaring.FromDense(setOf(0, benchItems, ordinals).words, false))
			}
		})
	}
}

// BenchmarkThin reads a posting whose containers have from 2,048 to 4,096
// ordinals, as this package writes it and as the library does.
func BenchmarkThin(b *testing.B) {
	draw := func(seed uint64) (own, library *Posting) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var ordinals []uint32
		for o := range uint32(benchItems) {
			if rng.IntN(25) == 0 {
				ordinals = append(ordinals, o)
			}
		}
		p := storedPosting(b, ordinals)
		data := frozenByLibrary(b, nil, roaring.BitmapOf(ordinals...))
		r := &Reader{src: Memory(data), info: Info{Items: benchItems, Bytes: int64(len(data))}}
		return &p, &Posting{r: r, n: p.n, kind: Large, size: int64(len(data))}
	}
	p, libP := draw(1)
	q, libQ := draw(2)
	set := setOf(0, benchItems, drawn(2, 3, 0, benchItems))
	count := func(p *Posting) func(*testing.B) {
		return func(b *testing.B) { _, err := p.CountIn(set); must(b, err) }
	}
	both := func(p, q *Posting) func(*testing.B) {
		return func(b *testing.B) { _, err := p.CountBoth(q); must(b, err) }
	}
	add := func(p *Posting) func(*testing.B) {
		return func(b *testing.B) { must(b, p.AddTo(set)) }
	}
	versus(b, "CountIn", count(p), count(libP))
	versus(b, "CountBoth", both(p, q), both(libP, libQ))
	versus(b, "AddTo", add(p), add(libP))
}

// BenchmarkFrame checks a posting before it is used.
func BenchmarkFrame(b *testing.B) {
	for shape, s := range benchShapes {
		p := drawnPosting(b, shape, 1)
		versus(b, s.name, func(b *testing.B) { _, err := p.frozen(); must(b, err) },
			func(b *testing.B) { must(b, viewOf(b, p).Validate()) })
	}
}

// BenchmarkAppendTo lists a posting; own is what lists it where the library has
// no view.
func BenchmarkAppendTo(b *testing.B) {
	for shape, s := range benchShapes {
		p := drawnPosting(b, shape, 1)
		dst := make([]uint32, 0, p.Len()+1)
		versus(b, s.name, func(b *testing.B) {
			f, err := p.frozen()
			must(b, err)
			dst = f.appendTo(dst[:0])
		}, func(b *testing.B) {
			var err error
			dst, err = p.AppendTo(dst[:0])
			must(b, err)
		})
	}
}

// BenchmarkAddTo joins two postings in a set.
func BenchmarkAddTo(b *testing.B) {
	for shape, s := range benchShapes {
		p, q := drawnPosting(b, shape, 1), drawnPosting(b, shape, 2)
		for _, r := range benchRanges {
			var set Set
			within := intervalOf(r.lo, r.hi)
			versus(b, s.name+"/"+r.name, func(b *testing.B) {
				set.Reset(r.lo, r.hi)
				must(b, p.AddTo(&set))
				must(b, q.AddTo(&set))
			}, func(b *testing.B) {
				v, w := viewOf(b, p), viewOf(b, q)
				if r.name == "part" {
					v, w = roaring.And(v, within), roaring.And(w, within)
				}
				roaring.Or(v, w)
			})
		}
	}
}

// BenchmarkCountIn counts a posting in a set, which library-of-set has to make a bitmap.
func BenchmarkCountIn(b *testing.B) {
	few := drawn(0, 3, 0, benchItems)[:20]
	for shape, s := range benchShapes {
		p := drawnPosting(b, shape, 1)
		for other, t := range benchShapes {
			for _, r := range benchRanges {
				ordinals := drawn(other, 2, r.lo, r.hi)
				set, m := setOf(r.lo, r.hi, ordinals), bitmapOf(ordinals)
				versus(b, s.name+"-in-"+t.name+"/"+r.name,
					func(b *testing.B) { _, err := p.CountIn(set); must(b, err) },
					func(b *testing.B) { viewOf(b, p).AndCardinality(m) })
				if r.lo > 0 {
					continue
				}
				b.Run(s.name+"-in-"+t.name+"/whole/library-of-set", func(b *testing.B) {
					for b.Loop() {
						viewOf(b, p).AndCardinality(roaring.FromDense(set.words, false))
					}
				})
			}
		}
		set, m := setOf(0, benchItems, few), bitmapOf(few)
		versus(b, s.name+"-in-few/whole",
			func(b *testing.B) { _, err := p.countOf(few, set); must(b, err) },
			func(b *testing.B) { viewOf(b, p).AndCardinality(m) })
	}
}

// benchPairs calls fn with two postings, of the same shape and of all others.
func benchPairs(b *testing.B, fn func(name string, p, q *Posting)) {
	for one, s := range benchShapes {
		for other := one; other < len(benchShapes); other++ {
			fn(s.name+"-"+benchShapes[other].name, drawnPosting(b, one, 1), drawnPosting(b, other, 2))
		}
	}
}

// BenchmarkCountBoth counts what two postings have in common. CountBoth takes the
// library unless both are sparse or medium.
func BenchmarkCountBoth(b *testing.B) {
	benchPairs(b, func(name string, p, q *Posting) {
		versus(b, name, func(b *testing.B) {
			f, g, err := p.frames(q)
			must(b, err)
			countBoth(&f, &g)
		}, func(b *testing.B) {
			viewOf(b, p).AndCardinality(viewOf(b, q))
		})
	})
}

func addBitmap(s *Set, lo, hi uint32, m *roaring.Bitmap) {
	s.Reset(lo, hi)
	var buf [256]uint32
	for list := m.ManyIterator(); ; {
		n := list.NextMany(buf[:])
		if n == 0 {
			return
		}
		for _, o := range buf[:n] {
			s.Add(o)
		}
	}
}

// BenchmarkAddBoth finds what two postings have in common in a range.
func BenchmarkAddBoth(b *testing.B) {
	benchPairs(b, func(name string, p, q *Posting) {
		for _, r := range benchRanges {
			var set Set
			within := intervalOf(r.lo, r.hi)
			versus(b, name+"/"+r.name, func(b *testing.B) {
				set.Reset(r.lo, r.hi)
				must(b, p.AddBoth(q, &set))
			}, func(b *testing.B) {
				v := viewOf(b, p)
				if r.name == "part" {
					v = roaring.And(v, within)
				}
				addBitmap(&set, r.lo, r.hi, roaring.And(v, viewOf(b, q)))
			})
		}
	})
}

// BenchmarkRetain leaves in a set what a posting has.
func BenchmarkRetain(b *testing.B) {
	for shape, s := range benchShapes {
		p := drawnPosting(b, shape, 1)
		for _, r := range benchRanges {
			ordinals := drawn(2, 2, r.lo, r.hi)
			set, m := setOf(r.lo, r.hi, ordinals), bitmapOf(ordinals)
			var kept Set
			versus(b, s.name+"-in-dense/"+r.name, func(b *testing.B) {
				kept.Reset(r.lo, r.hi)
				copy(kept.words, set.words)
				must(b, p.Retain(&kept))
			}, func(b *testing.B) { roaring.And(m, viewOf(b, p)) })
		}
	}
}

// BenchmarkSet is the algebra of sets.
func BenchmarkSet(b *testing.B) {
	for shape, s := range benchShapes {
		for _, r := range benchRanges {
			x, y := drawn(shape, 1, r.lo, r.hi), drawn(shape, 2, r.lo, r.hi)
			setX, setY, m, n := setOf(r.lo, r.hi, x), setOf(r.lo, r.hi, y), bitmapOf(x), bitmapOf(y)
			mixed := slices.Clone(x)
			rand.New(rand.NewPCG(1, 1)).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
			var set Set
			name := func(op string) string { return op + "/" + s.name + "/" + r.name }
			copied := func(op func(*Set)) func(*testing.B) {
				return func(*testing.B) {
					set.Reset(r.lo, r.hi)
					copy(set.words, setX.words)
					op(setY)
				}
			}
			versus(b, name("And"), copied(set.And), func(*testing.B) { roaring.And(m, n) })
			versus(b, name("Or"), copied(set.Or), func(*testing.B) { roaring.Or(m, n) })
			versus(b, name("AndNot"), copied(set.AndNot), func(*testing.B) { roaring.AndNot(m, n) })
			versus(b, name("CountAnd"), func(*testing.B) { setX.CountAnd(setY) }, func(*testing.B) { m.AndCardinality(n) })
			versus(b, name("Count"), func(*testing.B) { setX.Count() }, func(*testing.B) { m.GetCardinality() })
			versus(b, name("Add"), func(*testing.B) {
				set.Reset(r.lo, r.hi)
				for _, o := range mixed {
					set.Add(o)
				}
			}, func(*testing.B) { roaring.BitmapOf(mixed...) })
			versus(b, name("Contains"), func(*testing.B) {
				for _, o := range mixed {
					setY.Contains(o)
				}
			}, func(*testing.B) {
				for _, o := range mixed {
					n.Contains(o)
				}
			})
			versus(b, name("Next"), func(*testing.B) {
				for o, ok := setX.Next(r.lo); ok; o, ok = setX.Next(o + 1) {
				}
			}, func(*testing.B) {
				for i := m.Iterator(); i.HasNext(); i.Next() {
				}
			})
		}
	}
}
