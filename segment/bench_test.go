package segment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cleavestore/cleave/internal/item"
	"github.com/cleavestore/cleave/internal/lz"
	"github.com/cleavestore/cleave/internal/vfs"
	"github.com/cleavestore/cleave/internal/workload"
)

// corpus is generated documents in the order of a file.
type corpus struct {
	model
	raw  int64
	dict *Dictionary
}

var corpora sync.Map

// load makes n documents of a shape, in n/100 logical partitions.
func load(b *testing.B, shape string, n int) *corpus {
	make := sync.OnceValue(func() *corpus {
		params := workload.Params{Shape: shape, Seed: 1, LogicalPartitions: n / 100}
		if size, of, ok := strings.Cut(shape, ","); ok { // such as 16KiB,0.7
			params.Shape, params.Sizes = "sized", size
			params.Compressible, _ = strconv.ParseFloat(of, 64)
		}
		g, err := workload.NewGenerator(params)
		if err != nil {
			panic(err)
		}
		c := &corpus{}
		var samples [][]byte
		for i := range n {
			k := newKey(encodeKey(string(g.AppendKey(nil, g.Partition(int64(i))))), string(g.AppendID(nil, int64(i))))
			body := g.Append(nil, int64(i), 0)
			c.raw += int64(len(body))
			c.model = append(c.model, entry{k, item.Version{Seq: uint64(i + 1), Modified: 1700000000000 + int64(i), Body: body}})
			if i%(n/2000) == 0 {
				samples = append(samples, body)
			}
		}
		c.sort()
		if c.dict, err = NewDictionary(lz.Sample(samples, MinDictionary, 60<<10)); err != nil {
			panic(err)
		}
		return c
	})
	c, _ := corpora.LoadOrStore(fmt.Sprint(shape, n), make)
	b.Helper()
	return c.(func() *corpus)()
}

// lookups is a random sequence of keys, laid out in its order as a caller has
// the key that it looks up at hand.
type lookups struct {
	keys []item.Lookup
	next int
}

// lookups returns keys of the corpus, changed to miss if suffix is not empty.
func (c *corpus) lookups(r *Reader, suffix string) *lookups {
	rng := rand.New(rand.NewPCG(1, 1))
	l := &lookups{}
	for range 1 << 17 {
		k := c.model[rng.IntN(len(c.model))].key
		k.ID = append(append([]byte{}, k.ID...), suffix...)
		k = k.Clone()
		at := k.Lookup()
		at.Hash(&r.seed)
		l.keys = append(l.keys, *at)
	}
	return l
}

func (l *lookups) key() *item.Lookup {
	l.next = (l.next + 1) % len(l.keys)
	return &l.keys[l.next]
}

// benchReaders runs a benchmark on a file of each kind.
func benchReaders(b *testing.B, run func(b *testing.B, r *Reader, c *corpus)) {
	for _, kind := range []struct {
		shape       string
		n           int
		compression Compression
		mode        Mode
	}{
		{"food", 100_000, Fast, Map}, {"food", 100_000, Small, Map}, {"food", 100_000, None, Map},
		{"food", 100_000, Fast, Pread}, {"small", 500_000, Fast, Map},
	} {
		mode := "map"
		if kind.mode == Pread {
			mode = "pread"
		}
		b.Run(fmt.Sprintf("%s/%v/%s", kind.shape, kind.compression, mode), func(b *testing.B) {
			c := load(b, kind.shape, kind.n)
			fsys, err := vfs.OpenRoot(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			p := write(b, fsys, "a", c.model, WriterOptions{Compression: kind.compression, Dictionary: c.dict, Levels: 1})
			r, err := Open(fsys, "a", ReaderOptions{Mode: kind.mode, EPK: hashEPK, Warm: true})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Release()
			run(b, r, c)
			b.ReportMetric(float64(p.FileBytes)/float64(c.raw), "of-raw")
		})
	}
}

func BenchmarkGetHit(b *testing.B) {
	benchReaders(b, func(b *testing.B, r *Reader, c *corpus) {
		l := c.lookups(r, "")
		buf := make([]byte, 0, 64<<10)
		var v item.Version
		b.ReportAllocs()
		for b.Loop() {
			found, _, err := r.Get(l.key(), math.MaxUint64, buf, &v)
			if !found || err != nil {
				b.Fatal(found, err)
			}
		}
	})
}

func BenchmarkGetMiss(b *testing.B) {
	benchReaders(b, func(b *testing.B, r *Reader, c *corpus) {
		l := c.lookups(r, "x")
		var v item.Version
		b.ReportAllocs()
		for b.Loop() {
			found, _, err := r.Get(l.key(), math.MaxUint64, nil, &v)
			if found || err != nil {
				b.Fatal(found, err)
			}
		}
	})
}

func BenchmarkCursor(b *testing.B) {
	benchReaders(b, func(b *testing.B, r *Reader, c *corpus) {
		for _, op := range []string{"next", "prev", "seek"} {
			b.Run(op, func(b *testing.B) {
				l := c.lookups(r, "")
				cur := r.Cursor(math.MaxUint64)
				b.ReportAllocs()
				for b.Loop() {
					ok := false
					switch op {
					case "next":
						ok = cur.Next() || cur.First()
					case "prev":
						ok = cur.Prev() || cur.Last()
					case "seek":
						k := l.key().Key
						ok = cur.SeekGE(k)
					}
					if !ok {
						b.Fatal(cur.Err())
					}
				}
			})
		}
	})
}

// BenchmarkShortScan seeks and moves 20 times, as a scan with a limit does.
func BenchmarkShortScan(b *testing.B) {
	benchReaders(b, func(b *testing.B, r *Reader, c *corpus) {
		l := c.lookups(r, "")
		var cur Cursor
		b.ReportAllocs()
		for b.Loop() {
			cur.Reset(r, math.MaxUint64)
			k := l.key().Key
			ok := cur.SeekGE(k)
			for range 20 {
				ok = ok && cur.Next()
			}
			if cur.Err() != nil {
				b.Fatal(cur.Err())
			}
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	c := load(b, "food", 100_000)
	fsys, err := vfs.OpenRoot(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	write(b, fsys, "a", c.model, WriterOptions{Dictionary: c.dict, Levels: 1})
	b.ReportAllocs()
	for b.Loop() {
		r, err := Open(fsys, "a", ReaderOptions{EPK: hashEPK})
		if err != nil {
			b.Fatal(err)
		}
		r.Release()
	}
}

// BenchmarkVerifyChecksums reads a file that is in memory; bytes are those of
// the file.
func BenchmarkVerifyChecksums(b *testing.B) {
	c := load(b, "food", 100_000)
	fsys, err := vfs.OpenRoot(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	p := write(b, fsys, "a", c.model, WriterOptions{Dictionary: c.dict, Levels: 1})
	r := open(b, fsys, "a", Map)
	b.SetBytes(p.FileBytes)
	for b.Loop() {
		if err := r.VerifyChecksums(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWalk(b *testing.B) {
	benchReaders(b, func(b *testing.B, r *Reader, c *corpus) {
		w := r.Walk()
		b.ReportAllocs()
		b.SetBytes(c.raw / int64(len(c.model)))
		for b.Loop() {
			if !w.Next() {
				if w.Err() != nil {
					b.Fatal(w.Err())
				}
				w = r.Walk()
			}
		}
	})
}

// BenchmarkBytesOfGroups does with the bytes of groups, in the order of the file, what no scan can leave out: it sums them,
// decodes them or copies them, and reads the last byte. One operation is a group, of a document each where they have 1.4 KB.
func BenchmarkBytesOfGroups(b *testing.B) {
	benchReaders(b, func(b *testing.B, r *Reader, c *corpus) {
		m := r.file.View()
		if m == nil {
			b.Skip("only of a mapping")
		}
		for _, sum := range []bool{true, false} {
			b.Run(fmt.Sprintf("sum=%v", sum), func(b *testing.B) {
				var o opened
				var buf []byte
				at, read := r.groups.Off, 0
				b.ReportAllocs()
				for b.Loop() {
					err := o.parse(r, m.Data[at:r.groups.end()], at, !sum)
					if err == nil {
						err = o.head(r)
					}
					if err == nil {
						buf, err = o.expand(r, buf[:0])
					}
					if err != nil {
						b.Fatal(err)
					}
					if o.g.coding&codingCodec == codecRaw {
						buf = append(buf[:0], o.raw...)
					}
					read += int(buf[len(buf)-1])
					if at = o.end(); at == r.groups.end() {
						at = r.groups.Off
					}
				}
				if read == 0 {
					b.Fatal("nothing was read")
				}
			})
		}
	})
}

// BenchmarkWriter counts raw bytes; one operation is a file.
func BenchmarkWriter(b *testing.B) {
	for _, shape := range []struct {
		name string
		n    int
	}{{"food", 100_000}, {"small", 500_000}} {
		for _, compression := range []Compression{Fast, Small, None} {
			b.Run(fmt.Sprintf("%s/%v", shape.name, compression), func(b *testing.B) {
				c := load(b, shape.name, shape.n)
				fsys, err := vfs.OpenRoot(b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.SetBytes(c.raw)
				for b.Loop() {
					write(b, fsys, "a", c.model, WriterOptions{Compression: compression, Dictionary: c.dict, Levels: 1})
					if err := fsys.Remove("a"); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkMerge copies a file through a walker, compressed bytes as they are.
func BenchmarkMerge(b *testing.B) {
	benchReaders(b, func(b *testing.B, r *Reader, c *corpus) {
		fsys, err := vfs.OpenRoot(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(c.raw)
		compression := Fast
		if len(r.Dictionaries()) == 0 {
			compression = None
		}
		for b.Loop() {
			f, err := fsys.Create("m")
			if err != nil {
				b.Fatal(err)
			}
			w, err := NewWriter(f, WriterOptions{Levels: 1, EPK: hashEPK, Dictionary: c.dict, Compression: compression})
			if err != nil {
				b.Fatal(err)
			}
			for walk := r.WalkKeys(); walk.Next(); {
				if err := w.AddFrom(walk); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := w.Finish(); err != nil {
				b.Fatal(err)
			}
			if err := fsys.Remove("m"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
