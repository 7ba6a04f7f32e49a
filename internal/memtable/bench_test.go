package memtable

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cleavestore/cleave/internal/arena"
	"github.com/cleavestore/cleave/internal/item"
)

const (
	benchItems = 64 << 10
	benchBody  = 1 << 10
)

// benchTable returns a full table and its keys in another order, laid out one
// after the other, so that a benchmark does not measure the misses of its keys.
func benchTable(b *testing.B) (*Table, []item.Key) {
	b.Helper()
	keys := benchKeys()
	table := New(arena.NewPool(1<<30), Range{}, benchItems, item.NewSeed())
	b.Cleanup(table.Release)
	fillTable(b, table, keys)
	probes := make([]item.Key, len(keys))
	for i, j := range rand.New(rand.NewPCG(2, 2)).Perm(len(keys)) {
		probes[i] = keys[j].Clone()
	}
	return table, probes
}

// benchKeys returns keys of 8 items per logical partition in random order.
var benchKeys = sync.OnceValue(func() []item.Key {
	keys := makeKeys(benchItems, 8)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
})

func fillTable(b *testing.B, table *Table, keys []item.Key) {
	v := item.Version{Body: make([]byte, benchBody)}
	for i := range keys {
		v.Seq++
		if err := table.Put(&keys[i], &v, false); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPut inserts new keys, 64 Ki to a table.
func BenchmarkPut(b *testing.B) { benchPut(b, benchKeys(), benchBody) }

// BenchmarkPutRising inserts documents of 70 bytes with rising ids that share a
// long prefix into one logical partition.
func BenchmarkPutRising(b *testing.B) {
	keys := make([]item.Key, benchItems)
	for i := range keys {
		keys[i] = makeKey(scatter(1), "partition", fmt.Sprintf("order-%08d", i))
	}
	benchPut(b, keys, 70)
}

// benchPut inserts keys with bodies of so many bytes into tables of reused
// chunks.
func benchPut(b *testing.B, keys []item.Key, body int) {
	pool := arena.NewPool(1 << 30)
	table := New(pool, Range{}, benchItems, item.NewSeed())
	fillTable(b, table, keys)
	v := item.Version{Body: make([]byte, body)}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if i%benchItems == 0 {
			table.Release()
			table = New(pool, Range{}, benchItems, item.NewSeed())
		}
		v.Seq = uint64(i + 1)
		if err := table.Put(&keys[i%benchItems], &v, false); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(table.Bytes()-table.RawBytes())/float64(table.Items()), "overhead-B/item")
	table.Release()
}

// BenchmarkPutCold inserts as the engine does when documents stream through it:
// four tables in turn, 18,000 documents of 1.4 KB each in 250 logical
// partitions with random ids, and between two puts a copy of 6 KiB that washes
// the caches. put-ns is the time of a Put alone.
func BenchmarkPutCold(b *testing.B) {
	const (
		tables     = 4
		perTable   = 18_000
		partitions = 250
	)
	rnd := rand.New(rand.NewPCG(3, 3))
	keys := make([]item.Key, tables*perTable)
	for i := range keys {
		p := rnd.IntN(partitions) + i%tables*partitions
		k := makeKey(scatter(p), fmt.Sprintf("partition-key-of-%08d", p), fmt.Sprintf("%012x", rnd.Uint64()>>16))
		keys[i] = k.Clone()
	}
	wash := make([]byte, 16<<20)
	body := make([]byte, 1400)
	pool := arena.NewPool(1 << 30)
	full := [tables]*Table{}
	for i := range full {
		full[i] = New(pool, Range{}, perTable, item.NewSeed())
	}
	defer func() {
		for _, t := range full {
			t.Release()
		}
	}()
	sum := byte(0)
	run := func(n int, put bool) time.Duration {
		start, at := time.Now(), 0
		for i := range n {
			copy(wash[at:at+6<<10], wash[len(wash)/2+at:])
			if at += 6 << 10; at > len(wash)/2-6<<10 {
				at = 0
			}
			k := &keys[i%len(keys)]
			sum += k.EPK[0] + k.ID[0]
			if !put {
				continue
			}
			if i%len(keys) == 0 {
				for j, t := range full {
					t.Release()
					full[j] = New(pool, Range{}, perTable, item.NewSeed())
				}
			}
			if err := full[i%tables].Put(k, &item.Version{Seq: uint64(i + 1), Body: body}, false); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(start)
	}
	run(len(keys), true)
	b.ReportAllocs()
	b.ResetTimer()
	all := run(b.N, true)
	b.StopTimer()
	b.ReportMetric(float64(all-run(b.N, false))/float64(b.N), "put-ns")
	overhead, items := int64(0), int64(0)
	for _, t := range full {
		overhead += t.Bytes() - t.RawBytes()
		items += t.Items()
	}
	b.ReportMetric(float64(overhead)/float64(items), "overhead-B/item")
	_ = sum
}

// BenchmarkSeek finds single keys from either side.
func BenchmarkSeek(b *testing.B) {
	table, keys := benchTable(b)
	for _, way := range []string{"GE", "LT"} {
		b.Run(way, func(b *testing.B) {
			var c Cursor
			b.ReportAllocs()
			for i := range b.N {
				c.Reset(table, math.MaxUint64)
				if k := &keys[i%benchItems]; way == "GE" {
					c.SeekGE(k)
				} else {
					c.SeekLT(k)
				}
			}
		})
	}
}

func BenchmarkGetHit(b *testing.B) {
	table, keys := benchTable(b)
	var v item.Version
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if !table.Get(keys[i%benchItems].Lookup(), math.MaxUint64, &v) {
			b.Fatal("missing")
		}
	}
}

func BenchmarkGetMiss(b *testing.B) {
	table, keys := benchTable(b)
	for i := range keys {
		keys[i].ID[0] = 'x'
	}
	var v item.Version
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if table.Get(keys[i%benchItems].Lookup(), math.MaxUint64, &v) {
			b.Fatal("found")
		}
	}
}

// BenchmarkGetParallel is BenchmarkGetHit in GOMAXPROCS goroutines.
func BenchmarkGetParallel(b *testing.B) {
	table, keys := benchTable(b)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		var v item.Version
		for i := rand.IntN(benchItems); pb.Next(); i++ {
			if !table.Get(keys[i%benchItems].Lookup(), math.MaxUint64, &v) {
				b.Error("missing")
				return
			}
		}
	})
}

func BenchmarkScan50(b *testing.B) {
	table, keys := benchTable(b)
	for _, way := range []string{"forward", "backward"} {
		b.Run(way, func(b *testing.B) {
			var c Cursor
			b.ReportAllocs()
			for i := range b.N {
				c.Reset(table, math.MaxUint64)
				k := &keys[i%benchItems]
				if way == "forward" {
					for n, ok := 1, c.SeekGE(k); ok && n < 50; n++ {
						ok = c.Next()
					}
				} else {
					for n, ok := 1, c.SeekLT(k); ok && n < 50; n++ {
						ok = c.Prev()
					}
				}
			}
		})
	}
}

// BenchmarkWalk reports ns per version of a whole pass.
func BenchmarkWalk(b *testing.B) {
	table, _ := benchTable(b)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		n := 0
		for w := table.Walk(math.MaxUint64); w.Next(); n++ {
		}
		if n != benchItems {
			b.Fatal(n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchItems, "ns/version")
}
